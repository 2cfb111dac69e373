// Where the API server is, and by which account we call it: from a Pod's ServiceAccount, or from a
// kubeconfig as kubectl reads it.
//
// Plain values; any thread.
#pragma once

#include <string>

#include "base/result.h"
#include "wire/http/endpoint.h"
#include "wire/http/tls.h"

namespace sluice::kube {

struct Config {
  wire::Endpoint server;
  bool tls = true;  // false: plain HTTP, as `kubectl proxy` serves it
  wire::TlsClientSettings shows;
  std::string token;              // a bearer's; empty: none
  std::string token_file;         // in its place: read again when it changes
  std::string space = "default";  // the namespace of what names none
};

// Of the ServiceAccount that is mounted into this Pod; kUnavailable: this is no Pod.
Result<Config> config_in_cluster();
// Of a kubeconfig's current context. kInvalid names the file and what is missing; `exec` plugins
// and passwords are not read.
Result<Config> config_from_file(const std::string& path);
// In a Pod its own; else of $KUBECONFIG, or ~/.kube/config.
Result<Config> default_config();

}  // namespace sluice::kube
