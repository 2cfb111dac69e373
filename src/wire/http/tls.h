// TLS between our own processes, and to the API server: what a side shows, and what it trusts.
// Plain values, and OpenSSL's contexts made of them.
//
// A context is shared by connections, and not changed once it is made; any thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"

namespace boost::asio::ssl {
class context;
}

namespace sluice::wire {

// PEM texts, not paths.
struct TlsIdentity {
  std::string certificate;  // with what leads to its CA
  std::string key;

  bool operator==(const TlsIdentity&) const = default;
};

struct TlsClientSettings {
  std::string ca;           // of servers; empty: the system's
  TlsIdentity own;          // empty: the client shows nothing
  std::string server_name;  // for which the server's certificate must be; empty: the host

  bool operator==(const TlsClientSettings&) const = default;
};

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// kInvalid: a text is no certificate or key.
Result<TlsContext> client_context(const TlsClientSettings& settings);
// `client_ca`: of the clients, which must show a certificate; empty: they need none.
Result<TlsContext> server_context(const TlsIdentity& own, const std::string& client_ca);

// A folder with tls.crt, tls.key and ca.crt, as a Secret is mounted. Thread-safe.
class TlsFolder {
 public:
  explicit TlsFolder(std::string path) : path_(std::move(path)) {}

  // Returns a server's context of the files as they are now, so that a rotated certificate is in
  // use from the next connection on. While new ones cannot be read the former stay in use.
  // `asks_clients`: they must show a certificate of ca.crt.
  Result<TlsContext> server(bool asks_clients);

 private:
  Result<TlsContext> read(bool asks_clients) const;

  const std::string path_;
  std::mutex mutex_;
  TlsContext latest_;
  std::filesystem::file_time_type changed_{};
};

// Returns the common name of the certificate that the peer showed; empty: it showed none.
// `native`: an SSL*, after the handshake.
std::string peer_common_name(void* native);

}  // namespace sluice::wire
