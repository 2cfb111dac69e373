#include "kube/lease.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "kube/time_text.h"
#include "kube/wait.h"
#include "wire/http/await.h"

namespace sluice::kube {
namespace {

using nlohmann::json;

constexpr Nanos kDeadlinePeriod = Millis(100);

// Returns "" if it is no text.
std::string text_at(const json& object, const json::json_pointer& place) {
  return object.contains(place) && object[place].is_string() ? object[place].get<std::string>()
                                                             : "";
}

std::string holder_of(const json& lease) {
  return text_at(lease, "/spec/holderIdentity"_json_pointer);
}

int64_t transitions_of(const json& spec) {
  const auto found = spec.find("leaseTransitions");
  return found != spec.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

}  // namespace

Lease::Lease(Client& client, LeaseSettings settings, const Clock& clock,
             std::function<void()> on_held, std::function<void()> on_lost)
    : client_(client),
      settings_(std::move(settings)),
      clock_(clock),
      on_held_(std::move(on_held)),
      on_lost_(std::move(on_lost)) {}

bool Lease::holds() const {
  return clock_.now().time_since_epoch().count() < held_until_;
}

std::string Lease::path() const {
  return "/apis/coordination.k8s.io/v1/namespaces/" + settings_.space + "/leases";
}

asio::awaitable<void> Lease::run() {
  spawn(client_.io(), watch_deadline());
  while (!released_) {
    const Result<void> tried = co_await try_once();
    if (!tried.ok() && tried.error().kind != ErrorKind::kConflict)
      log::info("lease {}: {}", settings_.name, tried.error().message);
    note_loss();
    if (!was_held_ && holds()) {
      was_held_ = true;
      if (on_held_) on_held_();
    }
    asio::steady_timer timer(client_.io(), settings_.retry);
    (void)co_await timer.async_wait(wire::kAwait);
  }
}

// A call may wait for its answer longer than the lease is held.
asio::awaitable<void> Lease::watch_deadline() {
  while (!released_) {
    asio::steady_timer timer(client_.io(), std::min(kDeadlinePeriod, settings_.retry));
    (void)co_await timer.async_wait(wire::kAwait);
    note_loss();
  }
}

void Lease::note_loss() {
  if (!was_held_ || holds()) return;
  was_held_ = false;
  held_until_ = 0;
  if (on_lost_) on_lost_();
}

// Its resourceVersion is a precondition of the write: of two that try, one gets 409.
asio::awaitable<Result<void>> Lease::try_once() {
  const Time begun = clock_.now();
  const Result<Answer> found = co_await client_.send(Call(path() + "/" + settings_.name));
  if (!found.ok()) co_return found.error();
  if (found->status == 404) {
    const json fresh{{"apiVersion", "coordination.k8s.io/v1"},
                     {"kind", "Lease"},
                     {"metadata", {{"name", settings_.name}, {"namespace", settings_.space}}}};
    co_return co_await write(mine(fresh), begun);
  }
  if (found->status != 200) co_return Error{ErrorKind::kUnavailable, message_of(found->body)};
  const std::string holder = holder_of(found->body);
  if (holder != settings_.identity && !holder.empty() && !has_expired(found->body)) {
    held_until_ = 0;  // another has taken it
    co_return Result<void>();
  }
  co_return co_await write(mine(found->body), begun);
}

asio::awaitable<Result<void>> Lease::write(json lease, Time begun) {
  const bool exists = lease["metadata"].contains("resourceVersion");
  Call call(verb::post, path(), std::move(lease));
  if (exists) call.method = verb::put, call.target += "/" + settings_.name;
  const Result<json> written = co_await client_.call(std::move(call));
  if (!written.ok()) co_return written.error();
  held_until_ = (begun + settings_.deadline).time_since_epoch().count();
  co_return Result<void>();
}

json Lease::mine(json lease) const {
  json spec = lease.contains("spec") && lease["spec"].is_object() ? lease["spec"] : json::object();
  const std::string now = micro_time(unix_now());
  if (holder_of(lease) != settings_.identity) {
    spec["leaseTransitions"] = transitions_of(spec) + (spec.empty() ? 0 : 1);
    spec["acquireTime"] = now;
  }
  spec["holderIdentity"] = settings_.identity;
  spec["leaseDurationSeconds"] =
      std::chrono::duration_cast<std::chrono::seconds>(settings_.duration).count();
  spec["renewTime"] = now;
  lease["spec"] = std::move(spec);
  return lease;
}

bool Lease::has_expired(const json& lease) {
  const std::string version = text_at(lease, "/metadata/resourceVersion"_json_pointer);
  if (version != seen_version_) {
    seen_version_ = version;
    seen_ = clock_.now();
  }
  return clock_.now() - seen_ > settings_.duration;
}

asio::awaitable<void> Lease::release() {
  released_ = true;
  was_held_ = false;
  if (!holds()) co_return;
  held_until_ = 0;
  const Result<Answer> found = co_await client_.send(Call(path() + "/" + settings_.name));
  if (!found.ok() || found->status != 200 || holder_of(found->body) != settings_.identity)
    co_return;
  json lease = found->body;
  lease["spec"]["holderIdentity"] = "";
  (void)co_await client_.call(Call(verb::put, path() + "/" + settings_.name, std::move(lease)));
}

}  // namespace sluice::kube
