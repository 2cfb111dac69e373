// The certificates of a controller that leads: its authority, what it shows at its own sockets and
// to agents and gateways, and what they show it. It makes them, and renews them in time.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>

#include "cli/kube_client.h"
#include "wire/http/certificates.h"
#include "wire/http/http_connection.h"

namespace sluice::cli {

struct Identities {
  wire::TlsIdentity authority;
  std::string space;  // the platform's namespace
};

// Returns them once the API server has them: at the start it may not be there yet.
Identities make_identities(KubeThread& kube);

// Keeps the certificate of the controller's API and webhook in a folder of fronts.
Result<void> keep_own_certificate(const std::string& folder, const Identities& own);

// Renews all of them, forever. A coroutine of the client's io_context.
boost::asio::awaitable<void> renew_certificates(kube::Client& client, Identities own,
                                                std::string folder);

// What the controller shows its peers: one certificate for all, renewed long before it ends.
// Belongs to the thread of the peers' calls.
class ShownToPeers {
 public:
  explicit ShownToPeers(wire::TlsIdentity authority) : authority_(std::move(authority)) {}

  wire::HttpServerAddress address_of(const wire::Endpoint& peer);

 private:
  void renew(std::chrono::steady_clock::time_point now);

  const wire::TlsIdentity authority_;
  wire::TlsContext context_;
  std::chrono::steady_clock::time_point made_{};
};

}  // namespace sluice::cli
