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
  return runs_on(d.kind) &&
         (device_types.empty() ||
          std::ranges::find(device_types, type_of(d).name) != device_types.end());
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
