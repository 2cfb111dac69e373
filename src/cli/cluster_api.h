// The controller's API of a cluster, for `kubectl sluice`: through the API server's proxy of its
// Service, so that the cluster's own permissions decide, with the token of the Secret
// sluice-api-token.
//
// One thread.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "kube/config.h"
#include "wire/http/http.h"

namespace sluice::cli {

class ClusterApi {
 public:
  // `space`: the platform's namespace.
  static Result<std::shared_ptr<ClusterApi>> open(const kube::Config& config, std::string space);

  Result<wire::HttpResponse> call(wire::http::verb method, const std::string& target,
                                  std::string body, std::string_view type, Nanos timeout) const;
  std::string name() const;  // for people

 private:
  ClusterApi(const kube::Config& config, std::string space, wire::TlsContext tls)
      : config_(config), space_(std::move(space)), tls_(std::move(tls)) {}
  wire::HttpClient client(Nanos timeout) const;
  Result<std::string> read_token() const;

  const kube::Config config_;
  const std::string space_;
  const wire::TlsContext tls_;
  std::string token_;
};

}  // namespace sluice::cli
