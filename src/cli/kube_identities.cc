#include "cli/kube_identities.h"

#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "control/kube/peer_secrets.h"
#include "control/kube/webhook.h"
#include "kube/wait.h"
#include "wire/http/await.h"

namespace sluice::cli {
namespace {

// Whether one is to be renewed, or has been replaced by another client.
constexpr Nanos kLook = Seconds(60), kLookAgain = Seconds(5);
constexpr std::chrono::hours kClientValid{24};
// Of an answer. A peer whose node is taken over may send any.
constexpr uint64_t kLargestAnswer = uint64_t{64} << 20;

boost::asio::awaitable<Result<wire::TlsIdentity>> peer_certificate(kube::Client& client,
                                                                   const Identities& own) {
  return control::server_secret(client, own.space, control::kPeerSecret, own.authority,
                                {control::kPeerName}, unix_now());
}

}  // namespace

Identities make_identities(KubeThread& kube) {
  kube::Client& client = kube.client();
  const std::string space = client.config().space;
  Identities out{
      insist<wire::TlsIdentity>(
          "sluice-ca", [&] { return kube::run_on(kube.io(), control::authority(client, space)); }),
      space};
  insist<wire::TlsIdentity>(control::kPeerSecret,
                            [&] { return kube::run_on(kube.io(), peer_certificate(client, out)); });
  return out;
}

Result<void> keep_own_certificate(const std::string& folder, const Identities& own) {
  const std::string name = control::kControllerName;
  SLUICE_ASSIGN(made,
                control::keep_certificate(folder, own.authority,
                                          {name, name + "." + own.space + ".svc"}, unix_now()));
  if (made) log::info("the API and the webhook have a new certificate");
  return {};
}

boost::asio::awaitable<void> renew_certificates(kube::Client& client, Identities own,
                                                std::string folder) {
  std::string said;
  for (;;) {
    std::string faults;
    if (const auto kept = keep_own_certificate(folder, own); !kept.ok())
      faults += "; the controller's certificate: " + kept.error().message;
    const auto renewed = co_await peer_certificate(client, own);
    if (!renewed.ok()) faults += "; the agents' certificate: " + renewed.error().message;
    const auto trusted = co_await control::trust_webhook(client, own.authority.certificate);
    if (!trusted.ok()) faults += "; the webhook: " + trusted.error().message;
    if (!faults.empty() && faults != said) log::warn("certificates{}", faults);
    said = faults;
    boost::asio::steady_timer timer(client.io(), faults.empty() ? kLook : kLookAgain);
    (void)co_await timer.async_wait(wire::kAwait);
  }
}

wire::HttpServerAddress ShownToPeers::address_of(const wire::Endpoint& peer) {
  const auto now = std::chrono::steady_clock::now();
  if (!context_ || now - made_ > kClientValid / 2) renew(now);
  return {peer, context_, control::kPeerName, kLargestAnswer};
}

void ShownToPeers::renew(std::chrono::steady_clock::time_point now) {
  const auto shown = wire::issue(authority_, {control::kControllerName, {}, kClientValid});
  const auto context = wire::client_context(
      {.ca = authority_.certificate, .own = shown.ok() ? *shown : wire::TlsIdentity{}});
  if (!context.ok()) return log::error("TLS: {}", context.error().message);
  context_ = *context;
  made_ = now;
}

}  // namespace sluice::cli
