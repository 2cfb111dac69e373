#include "control/validate.h"

#include <algorithm>
#include <filesystem>

#include "control/cluster.h"
#include "control/model_archive.h"
#include "control/quantity.h"
#include "control/regular_file.h"
#include "policy/bundle.h"
#include "wire/json.h"

namespace sluice::control {
namespace {

constexpr size_t kLargestSidecar = 1 << 20;

Error invalid(const std::string& field, const std::string& why) {
  return {ErrorKind::kInvalid, field + ": " + why};
}

Result<std::vector<TensorSpec>> tensors(const nlohmann::json& sidecar, const char* key,
                                        const std::string& file) {
  std::vector<TensorSpec> out;
  if (!sidecar.is_object() || !sidecar.contains(key) || !sidecar[key].is_array() ||
      sidecar[key].empty())
    return invalid("model.path", file + ": wants " + key + ": a list of {name, datatype, shape}");
  for (const auto& item : sidecar[key]) {
    auto t = wire::tensor_spec_from(item);
    if (!t.ok()) return within("model.path: " + file, t.error());
    out.push_back(std::move(*t));
  }
  return out;
}

}  // namespace

Result<void> check_model(FunctionSpec& spec) {
  if (const auto checked = check_model_archive(spec.model.path); !checked.ok())
    return within("model.path", checked.error());
  const std::string sidecar = std::filesystem::path(spec.model.path).replace_extension(".json");
  const auto file = RegularFile::open(sidecar);
  if (!file.ok())
    return invalid("model.path", file.error().message +
                                     ": the model's inputs and outputs stand there "
                                     "(docs/function-file.md)");
  if (file->size() > kLargestSidecar)
    return invalid("model.path", sidecar + ": has " + std::to_string(file->size()) +
                                     " bytes; at most " + std::to_string(kLargestSidecar) +
                                     " are allowed");
  const auto parsed = wire::parse_json(file->read(0, kLargestSidecar));
  if (!parsed.ok()) return within("model.path: " + sidecar, parsed.error());
  SLUICE_ASSIGN(inputs, tensors(*parsed, "inputs", sidecar));
  SLUICE_ASSIGN(outputs, tensors(*parsed, "outputs", sidecar));
  spec.model.inputs = inputs;
  spec.model.outputs = outputs;
  return {};
}

Result<void> check_feasible(const FunctionSpec& spec, const std::vector<Device>& devices,
                            std::optional<Nanos> fastest) {
  if (!spec.policy.empty() && policy::find_bundle(spec.policy) == nullptr) {
    std::string known;
    for (const policy::Bundle& b : policy::bundles())
      known += (known.empty() ? "" : ", ") + std::string(b.name);
    return invalid("policy", "'" + spec.policy + "' is not known: " + known + " are");
  }
  if (spec.policy == "fixed" && !spec.slice)
    return invalid("slice", "is missing: policy fixed holds the slice that the file states");
  Bytes largest = 0;
  for (const Device& d : devices)
    if (serves(d)) largest = std::max(largest, d.memory);
  if (largest > 0) {
    const Bytes wanted = std::max(spec.memory, spec.slice ? spec.slice->memory : 0);
    if (wanted > largest)
      return invalid("memory", format_bytes(wanted) + " is more than any device has (at most " +
                                   format_bytes(largest) + ")");
  }
  if (fastest && spec.slo.latency > Nanos(0) && spec.slo.latency < *fastest)
    return invalid("slo.latency", format_duration(spec.slo.latency) +
                                      " is below the fastest this machine can answer (" +
                                      std::to_string(fastest->count() / 1'000) +
                                      "us on a whole device)");
  return {};
}

}  // namespace sluice::control
