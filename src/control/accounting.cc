#include "control/accounting.h"

#include <algorithm>
#include <cmath>

namespace sluice::control {
namespace {

// The holdings of an instance's parts. Their use is known only as a sum: the use above their total
// is charged at the mean of their cores and prices. So one part's idle share offsets what another
// borrows.
struct Held {
  double seconds = 0;        // of a whole device, summed over the parts
  double cost = 0;           // of these
  double sm = 0, price = 0;  // means over the parts
};

Held held_by(const Instance& i, const std::vector<Device>& devices, Nanos elapsed) {
  Held h;
  const auto parts = static_cast<double>(i.parts.size());
  for (const Part& p : i.parts) {
    const Device* device = find(devices, p.device);
    if (device == nullptr) continue;
    const double sm = p.slice.sm.fraction();
    const double held = sm * p.slice.quota.request.fraction() * seconds(elapsed);
    h.seconds += held;
    h.cost += held * device->price_per_hour / 3600;
    h.sm += sm / parts;
    h.price += device->price_per_hour / parts;
  }
  return h;
}

Share mean_limit(const Parts& parts) {
  int sum = 0;
  for (const Part& p : parts) sum += p.slice.quota.limit.permille;
  return {sum / static_cast<int>(parts.size())};
}

}  // namespace

void Accounting::step(const std::vector<ObservedInstance>& instances,
                      const std::vector<Device>& devices, Nanos elapsed) {
  auto known = used_.begin();
  for (const ObservedInstance& o : instances) {  // both are by id
    const Instance& i = o.instance;
    if (i.state == InstanceState::kGone) continue;
    while (known != used_.end() && known->first < i.id) known = used_.erase(known);
    // A new instance is charged for its use since birth.
    if (known == used_.end() || known->first != i.id)
      known = used_.try_emplace(known, i.id, Used{i.function});
    Used& account = known++->second;
    account.function = i.function;  // an earlier version kept it without
    const Nanos used = std::max(Nanos(0), o.used - account.busy);
    account.busy = o.used;
    const auto parts = static_cast<double>(i.parts.size());
    account.share = {
        static_cast<int>(std::lround(1000 * seconds(used) / seconds(elapsed) / parts))};
    account.limit = std::max(account.limit_now, mean_limit(i.parts));
    account.limit_now = mean_limit(i.parts);
    const Held held = held_by(i, devices, elapsed);
    if (o.foreign || held.sm == 0) continue;
    const double used_seconds = held.sm * seconds(used);
    Account& a = accounts_[i.function];
    a.slice_seconds += held.seconds;
    a.used_seconds += used_seconds;
    a.cost += held.cost + std::max(0.0, used_seconds - held.seconds) * held.price / 3600;
  }
  used_.erase(known, used_.end());
}

nlohmann::json to_json(const Account& a) {
  return {{"slice_seconds", a.slice_seconds},
          {"used_seconds", a.used_seconds},
          {"cost", a.cost},
          {"resizes", a.resizes},
          {"starts", a.starts},
          {"stops", a.stops}};
}

Account account_from(const nlohmann::json& j) {
  Account a;
  if (!j.is_object()) return a;
  a.slice_seconds = j.value("slice_seconds", 0.0);
  a.used_seconds = j.value("used_seconds", 0.0);
  a.cost = j.value("cost", 0.0);
  a.resizes = j.value("resizes", uint64_t{0});
  a.starts = j.value("starts", uint64_t{0});
  a.stops = j.value("stops", uint64_t{0});
  return a;
}

}  // namespace sluice::control
