// The admission webhook's server: answers the API server's reviews (admission.h), and keeps the
// webhook's configuration at our authority's certificate, so that a new one is trusted at once.
//
// Belongs to the client's io_context.
#pragma once

#include <deque>
#include <set>
#include <string>

#include "base/clock.h"
#include "control/kube/admission.h"
#include "control/kube/objects.h"
#include "kube/informer.h"
#include "wire/http/http.h"

namespace sluice::control {

inline constexpr const char* kWebhook = "sluice";  // the MutatingWebhookConfiguration's name

class Webhook {
 public:
  // `listening`: a unix socket, behind a TLS front.
  Webhook(kube::Client& client, Fd listening, PodAdditions additions, const Clock& clock);

  // Follows namespaces and Pods with slices, forever.
  void run();
  // Whether its lists are complete. Any thread.
  bool knows_all() const { return pods_.synced() && spaces_.synced(); }

 private:
  // Let through, and not among the Pods yet: Pods of a ReplicaSet come many at once.
  struct Admitted {
    std::string space;
    Share quota;
    Time at;
  };
  wire::HttpResponse answer(const wire::HttpRequest& request);
  NamespaceSlices slices_of(const std::string& space) const;
  void note_admitted(const nlohmann::json& request);
  void note_arrivals();

  kube::Client& client_;
  const PodAdditions additions_;
  const Clock& clock_;
  kube::Informer<PodObject> pods_;
  kube::Informer<NamespaceObject> spaces_;
  std::deque<Admitted> admitted_;
  std::set<kube::Key> arrived_;
  wire::HttpServer server_;
};

// Writes the certificate into the configuration. kNotFound: it is not installed.
boost::asio::awaitable<Result<void>> trust_webhook(kube::Client& client, std::string certificate);

}  // namespace sluice::control
