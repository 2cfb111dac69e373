#include "model/function.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice {

std::string to_string(const FunctionName& f) {
  return f.space + "/" + f.name;
}

FunctionName function_name(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return {.name = text};
  return {.space = text.substr(0, slash), .name = text.substr(slash + 1)};
}

std::string served_name(const FunctionName& f) {
  return f.space == "default" ? f.name : f.space + "." + f.name;
}

bool FunctionSpec::may_use(const Device& d) const {
  return runs_on(d.kind) && (mps != "on" || d.mps) && may_use(type_of(d));
}

bool FunctionSpec::may_use(const DeviceType& type) const {
  if (!device_types.empty() && std::ranges::find(device_types, type.name) == device_types.end())
    return false;
  if (!is_inference() || inference().variants.empty()) return true;
  const ModelVariant* variant = variant_on(type);
  return variant != nullptr && variant->fault.empty();
}

const ModelVariant* FunctionSpec::variant_on(const DeviceType& type) const {
  if (!is_inference()) return nullptr;
  const ModelVariant* found = nullptr;
  for (const ModelVariant& v : inference().variants)
    if (v.device_type == type.name || (v.device_type.empty() && found == nullptr)) found = &v;
  return found;
}

const ModelSpec& FunctionSpec::model_on(const DeviceType& type) const {
  const ModelVariant* variant = variant_on(type);
  return variant != nullptr ? variant->model : model();
}

std::vector<const ModelSpec*> FunctionSpec::models() const {
  if (!is_inference() || inference().variants.empty()) return {&model()};
  std::vector<const ModelSpec*> all;
  for (const ModelVariant& v : inference().variants)
    if (v.fault.empty()) all.push_back(&v.model);
  return all;
}

FunctionSpec FunctionSpec::on(const DeviceType& type) const {
  FunctionSpec spec = *this;
  if (!is_inference() || inference().variants.empty()) return spec;
  spec.model() = model_on(type);
  spec.inference().batching.max_size = most_at_once(*this, type);
  spec.inference().variants.clear();
  return spec;
}

int most_at_once(const FunctionSpec& spec, const DeviceType& type) {
  const int wanted = std::max(1, spec.inference().batching.max_size);
  const int taken = spec.model_on(type).max_batch;
  return taken > 0 ? std::min(wanted, taken) : wanted;
}

const InferenceSpec& FunctionSpec::inference() const {
  const auto* spec = std::get_if<InferenceSpec>(&kind);
  SLUICE_CHECK(spec != nullptr, to_string(name) + " is a training function");
  return *spec;
}

InferenceSpec& FunctionSpec::inference() {
  return const_cast<InferenceSpec&>(std::as_const(*this).inference());
}

const TrainingSpec& FunctionSpec::training() const {
  const auto* spec = std::get_if<TrainingSpec>(&kind);
  SLUICE_CHECK(spec != nullptr, to_string(name) + " is an inference function");
  return *spec;
}

TrainingSpec& FunctionSpec::training() {
  return const_cast<TrainingSpec&>(std::as_const(*this).training());
}

std::string revision_id(const FunctionName& f, int number) {
  return to_string(f) + "@" + std::to_string(number);
}

}  // namespace sluice
