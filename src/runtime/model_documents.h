// A model server's documents about itself and its model: the protocol's metadata and Triton's
// configuration and repository index. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/function.h"
#include "runtime/engine.h"

namespace sluice::runtime {

// The one model that a server serves, under the name that its clients use.
struct ServedModel {
  std::string name;
  std::string version = "1";
  ModelFile file;
  Batching batching;  // max_size: inferences that a request may carry
  int batch = 1;      // inferences that run at a time; a request with more runs in parts
};

nlohmann::json server_metadata();
// `versions`: all versions that serve beside it; empty: only its own.
nlohmann::json model_metadata(const ServedModel&, std::vector<std::string> versions);
nlohmann::json model_config(const ServedModel&, const std::vector<std::string>& versions);
nlohmann::json repository_entry(const ServedModel&, bool ready);

}  // namespace sluice::runtime
