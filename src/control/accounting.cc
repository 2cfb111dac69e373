#include "control/accounting.h"

#include <algorithm>
#include <cmath>

namespace sluice::control {

void Accounting::step(const std::vector<ObservedInstance>& instances,
                      const std::vector<Device>& devices, Nanos elapsed) {
  std::map<InstanceId, Nanos> used_now;
  shares_.clear();
  for (const ObservedInstance& o : instances) {
    const Instance& i = o.instance;
    if (i.state == InstanceState::kGone) continue;
    const auto before = used_.find(i.id);
    // One that is new has used what it has used since it was born.
    const Nanos used =
        std::max(Nanos(0), o.used - (before == used_.end() ? Nanos(0) : before->second));
    used_now[i.id] = o.used;
    shares_[i.id] = {static_cast<int>(std::lround(1000 * seconds(used) / seconds(elapsed)))};
    const auto device = std::ranges::find(devices, i.device, &Device::id);
    if (o.foreign || device == devices.end()) continue;
    Account& a = accounts_[i.function];
    const double held = i.slice.sm.fraction() * i.slice.quota.request.fraction() * seconds(elapsed);
    const double used_seconds = i.slice.sm.fraction() * seconds(used);
    a.slice_seconds += held;
    a.used_seconds += used_seconds;
    a.cost += (held + std::max(0.0, used_seconds - held)) * device->price_per_hour / 3600;
  }
  used_ = std::move(used_now);
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
