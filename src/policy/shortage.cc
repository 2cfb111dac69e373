#include "policy/shortage.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "policy/explain.h"

namespace sluice::policy {
namespace {

struct Free {
  Share sm, quota;
  DeviceId device;
  int64_t area() const { return static_cast<int64_t>(sm.permille) * quota.permille; }
};

// The largest free rectangle of a device.
Free largest_free(const Lanes& lanes) {
  Free best{.device = lanes.device().id};
  const int step = std::max(1, lanes.device().sm_quantum.permille);
  for (int sm = step; sm < kWhole.permille + step; sm += step) {
    for (const Opening& o : lanes.openings(lanes.width({sm}))) {
      const Free free{o.sm, o.quota, lanes.device().id};
      if (free.area() > best.area()) best = free;
    }
  }
  return best;
}

// "3 are too full (at most …), 1 lacks memory (…), 1 is cordoned".
std::string by_device(const ClusterPlan& plan, Bytes memory, Reason& reason) {
  int full = 0, poor = 0, cordoned = 0;
  Bytes most_memory = 0;
  Free most;
  for (const Lanes& lanes : plan.devices()) {
    if (lanes.device().drained) {
      ++cordoned;
    } else if (lanes.free_memory() < memory) {
      ++poor;
      most_memory = std::max(most_memory, lanes.free_memory());
    } else {
      ++full;
      const Free free = largest_free(lanes);
      if (free.area() > most.area()) most = free;
    }
  }
  const auto are = [](int n, const char* one, const char* several) {
    return std::to_string(n) + (n == 1 ? one : several);
  };
  const std::string left = most.area() == 0 ? "nothing is free"
                                            : "at most " + slice_text(most.sm, most.quota) +
                                                  " is free, on " + most.device;
  Words words;
  if (full > 0) words.add(are(full, " is", " are") + " too full (" + left + ")");
  if (poor > 0)
    words.add(are(poor, " lacks", " lack") + " " + mebibytes(memory) + " of memory (at most " +
              mebibytes(most_memory) + " is free)");
  if (cordoned > 0) words.add(are(cordoned, " is", " are") + " cordoned");
  reason.numbers = nonzero({{"devices_full", full},
                            {"devices_without_memory", poor},
                            {"devices_drained", cordoned},
                            {"most_free", static_cast<double>(most.area()) / 1e6}});
  return words.text();
}

// " a holds 100 % of a device, b (never measured) 25 %.", the largest first.
std::string by_function(const ClusterPlan& plan, const Predictor& predictor) {
  constexpr size_t kNamed = 6;
  struct Holder {
    std::string name;
    int64_t area = 0;
  };
  std::map<std::string, int64_t> held;
  for (const Lanes& lanes : plan.devices()) {
    for (const Room& room : lanes.rooms()) {
      const Instance& i = plan.instance(room.id);
      std::string name = i.function.name.empty() ? i.id : served_name(i.function);
      if (i.state == InstanceState::kDraining) {
        name += " (draining)";
      } else if (!i.function.name.empty() && predictor.batches(i.function, i.revision).empty()) {
        name += " (never measured)";
      }
      held[name] += static_cast<int64_t>(room.sm.permille) * room.quota.permille;
    }
  }
  if (held.empty()) return "";
  std::vector<Holder> holders;
  for (const auto& [name, area] : held) holders.push_back({name, area});
  std::stable_sort(holders.begin(), holders.end(),
                   [](const Holder& a, const Holder& b) { return a.area > b.area; });
  Words words;
  for (size_t k = 0; k < std::min(kNamed, holders.size()); ++k) {
    const std::string part = percent(static_cast<double>(holders[k].area) / 1e6);
    words.add(holders[k].name + (k == 0 ? " holds " + part + " of a device" : " " + part));
  }
  if (holders.size() > kNamed) words.add(std::to_string(holders.size() - kNamed) + " more");
  return " " + words.text() + ".";
}

}  // namespace

Reason shortage(const ClusterPlan& plan, const Predictor& predictor, const std::string& what,
                Bytes memory) {
  Reason reason{"cluster-full", "", {}};
  const size_t devices = plan.devices().size();
  if (devices == 0) {
    reason.text = "there is no device.";
    return reason;
  }
  reason.text = "of " + counted(static_cast<int>(devices), "device") + " none has room for " +
                what + ": " + by_device(plan, memory, reason) + "." + by_function(plan, predictor);
  return reason;
}

}  // namespace sluice::policy
