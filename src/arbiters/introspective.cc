#include "arbiters/introspective.h"

#include <algorithm>

namespace sluice::policy {
namespace {

// From the published code, where the paper is silent.
constexpr double kViolated = 1.6;
constexpr double kRecovered = 1.2;
constexpr double kWorstRatio = 4;
constexpr double kIncrease = 1.3;
constexpr double kFloor = 0.01;  // of the request
constexpr int kIdleWindows = 100;
constexpr int kCalmIterations = 5;

// Ours; see the header.
constexpr Nanos kCycleKnown = Seconds(1);
constexpr double kForgottenPerSecond = 0.01;

double limit_of(const Account& a) {
  return a.client.quota.limit.fraction();
}
double request_of(const Account& a) {
  return a.client.quota.request.fraction();
}
double floor_of(const Account& a) {
  return kFloor * (request_of(a) > 0 ? request_of(a) : limit_of(a));
}

}  // namespace

Result<void> IntrospectiveArbiter::admit(const ShareClient& client, Time now) {
  const Account* before = accounts_.find(client.id);
  const bool same_quota = before != nullptr && before->client.quota == client.quota;
  SLUICE_TRY(TokenArbiter::admit(client, now));
  Instance& instance = instances_[client.id];
  const Account& account = *accounts_.find(client.id);
  if (!same_quota) instance.last = std::max(request_of(account), floor_of(account));
  changed_ = true;
  return {};
}

void IntrospectiveArbiter::remove(ClientId id, Time now) {
  TokenArbiter::remove(id, now);
  instances_.erase(id);
  changed_ = true;
}

// A new kind replaces the one that was not seen for longest.
IntrospectiveArbiter::Kind& IntrospectiveArbiter::Instance::kind(uint32_t number) {
  const auto known = std::ranges::find_if(
      kinds, [&](const Kind& k) { return k.shortest > 0 && k.number == number; });
  if (known != kinds.end()) return *known;
  Kind& oldest = *std::ranges::min_element(kinds, {}, &Kind::seen_at);
  return oldest = {.number = number};
}

void IntrospectiveArbiter::iteration(ClientId id, Nanos cycle, uint32_t number, Time now) {
  const auto at = instances_.find(id);
  if (at == instances_.end() || cycle <= Nanos(0)) return;
  Instance& i = at->second;
  Kind& kind = i.kind(number);
  const double took = static_cast<double>(cycle.count());
  const bool first = kind.shortest == 0;
  const double forgotten = kForgottenPerSecond * std::max(seconds(now - kind.seen_at), 0.0);
  kind.shortest = first ? took : std::min(kind.shortest * (1 + forgotten), took);
  kind.seen_at = std::max(kind.seen_at, now);
  if (first) return;  // there is nothing to compare it with
  i.ratio = std::min(took / kind.shortest, kWorstRatio);
  i.calm = i.ratio < kRecovered ? i.calm + 1 : 0;
  i.iterated_at = std::max(i.iterated_at, now);
}

// Nothing was seen of it for a whole window of rates. Wanting alone is only a claim.
bool IntrospectiveArbiter::idle(const Account& a) {
  return accounts_.now() - a.busy_at >= kIdleWindows * accounts_.config().window;
}

void IntrospectiveArbiter::assess(Instance& i, const Account& a, bool others_idle) {
  const bool known = accounts_.now() - i.iterated_at < kCycleKnown;
  const double bearable = a.client.tolerance > 0 ? a.client.tolerance / 1000.0 : kViolated;
  const bool slow = i.ratio > bearable || (i.state == State::kEmergency && i.ratio >= kRecovered);
  if (idle(a)) {
    i.iterated_at = Time{};
    i.calm = 0;
    i.state = State::kRecovery;
  } else if (known && slow) {
    i.state = State::kEmergency;
  } else if (others_idle || (known && i.calm >= kCalmIterations)) {
    i.state = State::kRecovery;
  } else {
    i.state = State::kContention;
  }
}

// Returns the share that follows from the states. `last` changes by a factor once a window.
double IntrospectiveArbiter::share_of(const Instance& i, const Account& a, bool others_idle,
                                      bool new_window) {
  const double request = std::max(request_of(a), floor_of(a));
  const double more = new_window ? i.last * kIncrease : i.last;
  if (a.client.has_slo) {
    if (i.state == State::kEmergency) return limit_of(a);
    return others_idle && !idle(a) ? more : request;
  }
  switch (state_) {
    case State::kNone:
      return limit_of(a);
    case State::kEmergency:
      return new_window ? std::max(std::min(request, i.last) / ratio_, floor_of(a)) : i.last;
    case State::kRecovery:
      return more;
    case State::kContention:
      return i.last;
  }
  return request;
}

void IntrospectiveArbiter::issue(bool new_window) {
  const auto accounts = accounts_.all();
  const auto busy = std::count_if(accounts.begin(), accounts.end(),
                                  [this](const Account& a) { return !idle(a); });
  const auto others_idle = [&](const Account& a) { return busy == (idle(a) ? 0 : 1); };
  state_ = State::kNone;
  ratio_ = 1;
  for (const Account& a : accounts) {
    if (!a.client.has_slo) continue;
    Instance& i = instances_.at(a.client.id);
    assess(i, a, others_idle(a));
    state_ = std::max(state_, i.state);
    if (i.state == State::kEmergency) ratio_ = std::max(ratio_, i.ratio);
  }
  for (Account& a : accounts) {
    Instance& i = instances_.at(a.client.id);
    i.last = std::min(share_of(i, a, others_idle(a), new_window), limit_of(a));
    if (new_window && i.calm >= kCalmIterations) i.calm = 0;
    give(a, i.last);
  }
  changed_ = false;
}

Permits IntrospectiveArbiter::step(Time now) {
  const bool new_window = begin_step(now);
  if (new_window || changed_) issue(new_window);
  return grant_all();
}

}  // namespace sluice::policy
