#include "control/kube/webhook.h"

#include <algorithm>

#include "control/kube/pod_annotations.h"
#include "kube/base64.h"
#include "kube/wait.h"
#include "model/quantity.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr Nanos kArrives = Seconds(10);  // then a Pod that was let through was not made
constexpr const char* kMostAnnotation = "sluice.dev/most-quota";  // of a namespace

}  // namespace

Webhook::Webhook(kube::Client& client, Fd listening, PodAdditions additions, const Clock& clock)
    : client_(client),
      additions_(std::move(additions)),
      clock_(clock),
      pods_(client, "/api/v1/pods", "labelSelector=sluice.dev%2Fsliced",
            [this] { note_arrivals(); }),
      spaces_(client, "/api/v1/namespaces"),
      server_(client.io(), std::move(listening),
              [this](wire::HttpRequest request) -> boost::asio::awaitable<wire::HttpResponse> {
                co_return answer(request);
              }) {}

void Webhook::run() {
  kube::spawn(client_.io(), pods_.run());
  kube::spawn(client_.io(), spaces_.run());
}

wire::HttpResponse Webhook::answer(const wire::HttpRequest& request) {
  const Result<json> parsed = wire::parse_json(request.body());  // bounded: anyone may ask
  if (!parsed.ok()) return wire::error_response(parsed.error());
  const json& review = *parsed;
  if (!review.is_object() || !review.contains("request") || !review["request"].is_object())
    return wire::error_response(400, "an AdmissionReview with a request is wanted");
  // Pods that it does not know yet count, too.
  if (!knows_all())
    return wire::error_response(503, "the webhook does not know the cluster's Pods yet");
  const json admitted =
      admit(review, additions_, [this](const std::string& space) { return slices_of(space); });
  if (admitted["response"].value("allowed", false)) note_admitted(review["request"]);
  return wire::json_response(admitted);
}

void Webhook::note_admitted(const json& request) {
  if (request.value("operation", "") != "CREATE" || request.value("dryRun", false)) return;
  const Time now = clock_.now();
  std::erase_if(admitted_, [&](const Admitted& a) { return now - a.at >= kArrives; });
  const auto pod = PodObject::parse(request.value("object", json::object()));
  if (!pod.ok()) return;
  if (const auto slice = slice_of(pod->annotations); slice.ok() && *slice)
    admitted_.push_back({request.value("namespace", ""), (*slice)->slice.quota.request, now});
}

// A Pod has no name and no UID yet when it is let through: one of the same quota is taken for it.
void Webhook::note_arrivals() {
  std::set<kube::Key> now;
  for (const auto& [key, pod] : pods_.all()) {
    now.insert(key);
    if (arrived_.contains(key)) continue;
    const auto slice = slice_of(pod->annotations);
    if (!slice.ok() || !*slice) continue;
    const auto at = std::ranges::find_if(admitted_, [&, &space = key.space](const Admitted& a) {
      return a.space == space && a.quota == (*slice)->slice.quota.request;
    });
    if (at != admitted_.end()) admitted_.erase(at);
  }
  arrived_ = std::move(now);
}

NamespaceSlices Webhook::slices_of(const std::string& space) const {
  NamespaceSlices out;
  for (const auto& [key, pod] : pods_.all()) {
    if (key.space != space || pod->phase == "Succeeded" || pod->phase == "Failed") continue;
    if (const auto slice = slice_of(pod->annotations); slice.ok() && *slice)
      out.held = out.held + (*slice)->slice.quota.request;
  }
  const Time since = clock_.now() - kArrives;
  for (const Admitted& a : admitted_)
    if (a.space == space && a.at > since) out.held = out.held + a.quota;
  const auto found = spaces_.find({"", space});
  if (found == nullptr || !found->annotations.contains(kMostAnnotation)) return out;
  const auto most = parse_quota_sum(found->annotations.at(kMostAnnotation));
  if (most.ok())
    out.most = *most;
  else
    out.fault = "annotation " + std::string(kMostAnnotation) + " of namespace " + space + ": " +
                most.error().message;
  return out;
}

boost::asio::awaitable<Result<void>> trust_webhook(kube::Client& client, std::string certificate) {
  const std::string path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" +
                           std::string(kWebhook);
  const auto found = co_await client.call(kube::Call(path));
  if (!found.ok()) co_return found.error();
  const std::string bundle = kube::to_base64(certificate);
  json patch = json::array();
  const json hooks = found->value("webhooks", json::array());
  for (size_t i = 0; i < hooks.size(); ++i)
    if (hooks[i].value("/clientConfig/caBundle"_json_pointer, "") != bundle)
      patch.push_back({{"op", "add"},
                       {"path", "/webhooks/" + std::to_string(i) + "/clientConfig/caBundle"},
                       {"value", bundle}});
  if (patch.empty()) co_return Result<void>();
  const auto written =
      co_await client.call(kube::Call(kube::verb::patch, path, std::move(patch), kube::kJsonPatch));
  if (!written.ok()) co_return written.error();
  co_return Result<void>();
}

}  // namespace sluice::control
