// Function files, as users write them. YAML (or JSON) in the manner of Kubernetes, with KServe's
// field names where they exist; docs/function-file.md describes every field. A file may hold
// several documents. It is taken whole or not at all, and every problem is named at once: file,
// line, field, value, and the allowed range.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/function.h"
#include "policy/bundle.h"

namespace sluice::control {

// `file` names the text in messages; "~" in a model's path is `home`. A relative path is taken from
// `folder`; both are refused for a cluster, which has neither. Errors are kInvalid: one line per
// problem.
struct FileContext {
  std::string file = "-";
  std::string folder;
  std::string home;
  std::string models{};  // stands for /models, the folder in an image; empty: /models itself
  bool for_cluster = false;
};
// `check_model` checks each function whose model has a path: its error is one of the problems, at
// that path's line. While all problems are models that cannot be fetched now, the error is
// kUnavailable.
using ModelCheck = std::function<Result<void>(ModelSpec&)>;
Result<std::vector<FunctionSpec>> parse_functions(std::string_view text, const FileContext& context,
                                                  const ModelCheck& check_model = {});

// Returns what stands for /models on this machine: nothing if that folder is there, else the folder
// in which tools/make_models puts the models of the examples.
std::string folder_of_models(const std::string& home);

// Parses a file of a bundle's settings, "NAME: VALUE" each; names every problem, as above.
Result<policy::SettingTexts> parse_settings(std::string_view text, const std::string& file,
                                            const policy::Bundle& bundle);

// Returns kInvalid with the form of names, if a function may not have that name.
Result<void> check_name(const std::string& name);

}  // namespace sluice::control
