#include "sim/fluid_device.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::sim {

using policy::ClientId;

namespace {

constexpr int64_t kMillion = 1'000'000;
constexpr Nanos kLeastCredit = Micros(10);  // a smaller one changes no rate

// Returns what passes of a rate (in millionths) in that time, rounded down …
Nanos passed(Nanos time, int64_t rate) {
  return time / kMillion * rate + time % kMillion * rate / kMillion;
}

// … and the least time in which that much passes; Nanos::max() if it never does.
Nanos time_for(Nanos much, int64_t rate) {
  if (rate == 0 || much / rate >= Nanos::max() / kMillion / 2) return Nanos::max();
  return much / rate * kMillion + (much % rate * kMillion + Nanos(rate - 1)) / rate;
}

constexpr auto client_id = [](const auto& client) { return client.share.id; };

}  // namespace

const FluidDevice::Client& FluidDevice::client(ClientId id) const {
  const auto at = std::ranges::lower_bound(clients_, id, {}, client_id);
  SLUICE_CHECK(at != clients_.end() && at->share.id == id, "the client was admitted");
  return *at;
}

Result<void> FluidDevice::run(std::string_view arbiter) {
  SLUICE_ASSIGN(made, policy::make_arbiter(arbiter, {.window = policy::window_of(arbiter)}));
  arbiter_ = std::move(made);
  window_ = policy::window_of(arbiter);
  rule_ = find_sharing(arbiter);
  SLUICE_CHECK(rule_ != nullptr, "every arbiter has a rule");
  return {};
}

Result<void> FluidDevice::admit(const policy::ShareClient& share, Time now) {
  pass(now);
  SLUICE_TRY(arbiter_->admit(share, now));
  auto at = std::ranges::lower_bound(clients_, share.id, {}, client_id);
  if (at == clients_.end() || at->share.id != share.id) at = clients_.emplace(at);
  at->share = share;
  set_rates();
  return {};
}

void FluidDevice::remove(ClientId id, Time now) {
  pass(now);
  arbiter_->remove(id, now);
  std::erase_if(clients_, [&](const Client& c) { return c.share.id == id; });
  set_rates();
}

void FluidDevice::begin(ClientId id, Nanos work, int, Time, Time now) {
  pass(now);
  Client& c = client(id);
  SLUICE_CHECK(!c.working, "a model server runs one batch at a time");
  c.working = true;
  c.left = std::max(work, Nanos(1));
  set_rates();
}

std::vector<ClientId> FluidDevice::step(Time now) {
  pass(now);
  std::vector<ClientId> ended;
  for (Client& c : clients_) {
    if (!c.working || c.left > Nanos(0)) continue;
    c.working = false;
    ended.push_back(c.share.id);
  }
  set_rates();
  return ended;
}

const policy::ShareClient* FluidDevice::share_of(ClientId id) const {
  const auto found = std::ranges::find(clients_, id, [](const Client& c) { return c.share.id; });
  return found == clients_.end() ? nullptr : &found->share;
}

Nanos FluidDevice::used(ClientId id, Time now) const {
  const Client& c = client(id);
  return c.used + (c.working ? passed(std::max(now - now_, Nanos(0)), c.busy_rate) : Nanos(0));
}

// An idle client's limit is kept in each window, not in each moment: after it has used that, most
// of the window is over.
Nanos FluidDevice::most_credit(const Client& c) const {
  const int limit = limit_of(c).permille;
  return window_ * limit / 1000 * (1000 - limit) / 1000;
}

void FluidDevice::pass(Time now) {
  const Nanos time = std::max(now - now_, Nanos(0));
  for (Client& c : clients_) {
    const Nanos used = c.working ? passed(time, c.busy_rate) : Nanos(0);
    const Nanos fresh = passed(time, 1000 * limit_of(c).permille);
    c.used += used;
    c.credit = std::clamp(c.credit + fresh - used, Nanos(0), most_credit(c));
    if (c.working) c.left = std::max(c.left - passed(time, c.work_rate), Nanos(0));
  }
  now_ = std::max(now, now_);
}

void FluidDevice::set_rates() {
  ++steps_;
  sharers_.clear();
  for (const Client& c : clients_)
    if (c.working) sharers_.push_back({&c.share, c.credit > kLeastCredit ? kWhole : limit_of(c)});
  share_window(*rule_, physics_.contention, sharers_);
  next_ = Time::max();
  const auto no_later = [this](Nanos lasts) {
    if (lasts < Time::max() - now_) next_ = std::min(next_, now_ + lasts);
  };
  auto at = sharers_.begin();
  for (Client& c : clients_) {
    if (!c.working) continue;
    c.busy_rate = at->busy;
    c.work_rate = (at++)->work;
    no_later(time_for(c.left, c.work_rate));
    const int64_t beyond = c.busy_rate - 1000 * limit_of(c).permille;
    if (beyond > 0) no_later(time_for(c.credit, beyond));
  }
}

}  // namespace sluice::sim
