// What a measured instance is asked: requests as its protocol has them, made up from its inputs
// where the user gives no body.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/profile_points.h"
#include "model/function.h"
#include "wire/http/http.h"

namespace sluice::cli {

class ProfileRequests {
 public:
  // Asks the instance for its inputs if nothing else says them. `sweep` has path and body, and
  // outlives this.
  static Result<ProfileRequests> open(const FunctionSpec& spec, const Sweep& sweep,
                                      const FunctionName& name, wire::HttpClient& instance);

  // Returns kInvalid if there is neither a body nor an input to make one up from.
  Result<wire::HttpRequest> of(int batch) const;

 private:
  ProfileRequests(std::string served, bool by_path, const Sweep& sweep, nlohmann::json inputs)
      : served_(std::move(served)), by_path_(by_path), sweep_(&sweep), inputs_(std::move(inputs)) {}

  std::string served_;
  bool by_path_;
  const Sweep* sweep_;
  nlohmann::json inputs_;
};

}  // namespace sluice::cli
