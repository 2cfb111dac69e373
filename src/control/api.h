// The user's HTTP API (docs/api.md), over the control loop. Runs on the loop's thread.
#pragma once

#include "control/control.h"
#include "wire/http.h"

namespace sluice::control {

class Api {
 public:
  // `token`: what callers must bear; empty: anybody who reaches the socket may call.
  Api(Control& control, std::string token, std::string home)
      : control_(control), token_(std::move(token)), home_(std::move(home)) {}

  bool allows(const wire::HttpRequest& request) const;  // bears the token, if there is one
  wire::HttpResponse handle(const wire::HttpRequest& request, UnixMillis wall);

 private:
  Result<nlohmann::json> route(const wire::HttpRequest& request, const wire::Target& target,
                               UnixMillis wall);
  Result<nlohmann::json> apply(const wire::HttpRequest& request, const wire::Target& target,
                               UnixMillis wall);
  Result<nlohmann::json> decisions(const wire::Target& target) const;

  Control& control_;
  const std::string token_;
  const std::string home_;
};

}  // namespace sluice::control
