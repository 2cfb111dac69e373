// The user's HTTP API (docs/api.md), over the control loop.
//
// Threads: the loop's, except read_functions().
#pragma once

#include <optional>

#include "control/requests.h"
#include "wire/http/http.h"

namespace sluice::control {

class Api {
 public:
  // `token`: the token that callers must bear; empty: every caller that reaches the socket may
  // call.
  Api(Control& control, std::string token, std::string home)
      : control_(control), requests_(control), token_(std::move(token)), home_(std::move(home)) {}

  // The server's admission: a request without the token gets 401. handle() does not check again.
  std::optional<wire::HttpResponse> refusal(const wire::HttpHead& head) const;
  wire::HttpResponse handle(const wire::HttpRequest& request, UnixMillis wall);

  // POST /v1/functions has two halves, because the first reads files, which may take long.
  // read_functions(), on any thread, parses the function files, checks their models and copies the
  // new ones (unless it is a dry run). apply() deploys them. `copies` stay while the result of the
  // first half is held.
  struct FunctionsRead {
    std::vector<FunctionSpec> specs;
    std::vector<Models::Hold> copies;
  };
  static bool is_apply(const wire::HttpRequest& request);
  Result<FunctionsRead> read_functions(const wire::HttpRequest& request, Models& models) const;
  wire::HttpResponse apply(const wire::HttpRequest& request, const Result<FunctionsRead>& read,
                           UnixMillis wall);

 private:
  Result<nlohmann::json> route(const wire::HttpRequest& request, const wire::Target& target,
                               UnixMillis wall);
  Result<nlohmann::json> applied(const wire::HttpRequest& request,
                                 const Result<FunctionsRead>& read, UnixMillis wall);
  Result<nlohmann::json> decisions(const wire::Target& target) const;

  Control& control_;
  Requests requests_;
  const std::string token_;
  const std::string home_;
};

}  // namespace sluice::control
