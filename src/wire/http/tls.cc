#include "wire/http/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/context.hpp>

#include "base/log.h"
#include "base/read_file.h"

namespace sluice::wire {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

TlsContext modern_context(ssl::context::method method) {
  auto context = std::make_shared<ssl::context>(method);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                       ssl::context::no_tlsv1_1);
  return context;
}

Result<void> show(ssl::context& context, const TlsIdentity& own) {
  error_code fault;
  context.use_certificate_chain(boost::asio::buffer(own.certificate), fault);
  if (fault) return Error{ErrorKind::kInvalid, "the certificate: " + fault.message()};
  context.use_private_key(boost::asio::buffer(own.key), ssl::context::pem, fault);
  if (fault) return Error{ErrorKind::kInvalid, "the certificate's key: " + fault.message()};
  return {};
}

Result<void> trust(ssl::context& context, const std::string& ca) {
  error_code fault;
  context.add_certificate_authority(boost::asio::buffer(ca), fault);
  if (fault) return Error{ErrorKind::kInvalid, "the CA's certificate: " + fault.message()};
  return {};
}

}  // namespace

Result<TlsContext> client_context(const TlsClientSettings& settings) {
  TlsContext context = modern_context(ssl::context::tls_client);
  error_code fault;
  if (settings.ca.empty())
    context->set_default_verify_paths(fault);
  else
    SLUICE_TRY(trust(*context, settings.ca));
  if (fault) return Error{ErrorKind::kInternal, "the system's CAs: " + fault.message()};
  context->set_verify_mode(ssl::verify_peer);
  if (!settings.own.certificate.empty()) SLUICE_TRY(show(*context, settings.own));
  return context;
}

Result<TlsContext> server_context(const TlsIdentity& own, const std::string& client_ca) {
  TlsContext context = modern_context(ssl::context::tls_server);
  SLUICE_TRY(show(*context, own));
  if (client_ca.empty()) return context;
  SLUICE_TRY(trust(*context, client_ca));
  context->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  return context;
}

Result<TlsContext> TlsFolder::read(bool asks_clients) const {
  TlsIdentity own;
  SLUICE_ASSIGN(certificate, read_file(path_ + "/tls.crt"));
  SLUICE_ASSIGN(key, read_file(path_ + "/tls.key"));
  std::string ca;
  if (asks_clients) {
    SLUICE_ASSIGN(text, read_file(path_ + "/ca.crt"));
    ca = std::move(text);
  }
  return server_context({std::move(certificate), std::move(key)}, ca);
}

Result<TlsContext> TlsFolder::server(bool asks_clients) {
  const std::lock_guard lock(mutex_);
  std::error_code gone;
  const auto changed = std::filesystem::last_write_time(path_ + "/tls.crt", gone);
  if (latest_ && !gone && changed == changed_) return latest_;
  Result<TlsContext> made = read(asks_clients);
  if (!made.ok() && latest_ == nullptr) return made;
  changed_ = changed;
  if (made.ok())
    latest_ = *made;
  else
    log::warn("{}: {}; the former certificate stays in use", path_, made.error().message);
  return latest_;
}

std::string peer_common_name(void* native) {
  X509* shown = SSL_get1_peer_certificate(static_cast<SSL*>(native));
  if (shown == nullptr) return "";
  char name[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName, name, sizeof name);
  X509_free(shown);
  return name;
}

}  // namespace sluice::wire
