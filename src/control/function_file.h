// Function files: what users write. YAML (or JSON) in the manner of Kubernetes, KServe's field
// names where they exist; docs/function-file.md describes every field. A file may hold several
// documents; it is taken whole or not at all, and every problem is named at once: file, line,
// field, value, and what is allowed.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "policy/bundle.h"

namespace sluice::control {

// `file` names the text in messages; "~" in a model's path is `home`. A path that is relative is
// taken from `folder`. kInvalid: one line per problem.
struct FileContext {
  std::string file = "-";
  std::string folder;
  std::string home;
};
// `check_model` is asked about each function whose model has a path: its error is one of the
// problems, at that path's line.
using ModelCheck = std::function<Result<void>(FunctionSpec&)>;
Result<std::vector<FunctionSpec>> parse_functions(std::string_view text, const FileContext& context,
                                                  const ModelCheck& check_model = {});

// A file of a bundle's settings, "NAME: VALUE" each; every problem is named, as above.
Result<policy::SettingTexts> parse_settings(std::string_view text, const std::string& file,
                                            const policy::Bundle& bundle);

// Whether a function may have that name; kInvalid says what a name is.
Result<void> check_name(const std::string& name);

// The specification as a file that parses to the same.
std::string to_yaml(const FunctionSpec& spec);

// What differs, one line a field: "slo.latency: 80ms -> 60ms". Empty: nothing.
std::vector<std::string> difference(const FunctionSpec& before, const FunctionSpec& after);

}  // namespace sluice::control
