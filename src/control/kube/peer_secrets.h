// The certificates by which the controller's calls to agents and gateways are trusted: an authority
// in the Secret sluice-ca, and what it issues to them in sluice-peer-tls, which they mount. The
// leader makes them if they are missing, and anew when two thirds of their time are over.
//
// Coroutines of the client's io_context.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "kube/client.h"
#include "wire/http/certificates.h"

namespace sluice::control {

inline constexpr const char* kPeerName = "sluice-peer";              // of agents' certificates
inline constexpr const char* kControllerName = "sluice-controller";  // of the controller's
inline constexpr const char* kPeerSecret = "sluice-peer-tls";
inline constexpr const char* kTokenSecret = "sluice-api-token";

// Returns the authority, made if there is none. Of two controllers that make one, one does.
boost::asio::awaitable<Result<wire::TlsIdentity>> authority(kube::Client& client,
                                                            std::string space);
// Makes or renews the Secret of a server's certificate for `names`.
boost::asio::awaitable<Result<wire::TlsIdentity>> server_secret(
    kube::Client& client, std::string space, std::string secret, wire::TlsIdentity authority,
    std::vector<std::string> names, UnixMillis wall);

// Keeps a server's certificate for `names` as a folder's tls.crt and tls.key, for a TlsFolder:
// makes it if it is missing, another authority's, or as old as above. Returns whether it made one.
Result<bool> keep_certificate(const std::string& folder, const wire::TlsIdentity& authority,
                              const std::vector<std::string>& names, UnixMillis wall);

// Returns the token that callers of the controller's API over the network must show, made if there
// is none. RBAC permits to read its Secret.
boost::asio::awaitable<Result<std::string>> api_token(kube::Client& client, std::string space);

}  // namespace sluice::control
