#include "policy/scale/shortage.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

namespace sluice::policy {
namespace {

// "cpu1 runs the arbiter window for function a".
std::string runs_for(const ClusterPlan& plan, const Layout& layout) {
  const Room& room = *layout.arbiter_from();
  const FunctionName& function = plan.instance(room.id).function;
  return layout.device().id + " runs the arbiter " + std::string(room.arbiter) + " for " +
         (function.name.empty() ? room.id : "function " + served_name(function));
}

bool is_measured(const ClusterPlan& plan, const FunctionName& f, int revision,
                 const Device& device) {
  return !plan.predictor().candidates(model_on(f, revision, device)).batches.empty();
}

// "3 are too full (at most …), 1 lacks memory (…), 1 is cordoned".
std::string by_device(const ClusterPlan& plan, Bytes memory, const Demand* by_profile,
                      Numbers& numbers) {
  int full = 0, poor = 0, cordoned = 0, others = 0, away = 0, unmeasured = 0;
  std::string first_other;
  Bytes most_memory = 0;
  const auto area = [](const std::optional<Opening>& o) {
    return o ? int64_t{o->sm.permille} * o->quota.permille : 0;
  };
  std::optional<Opening> most;
  DeviceId most_on;
  for (size_t i = 0; i < plan.layouts().size(); ++i) {
    const Layout& layout = plan.layouts()[i];
    if (!layout.device().reachable) {
      ++away;
    } else if (layout.device().drained) {
      ++cordoned;
    } else if (layout.runs_another()) {
      if (++others == 1) first_other = runs_for(plan, layout);
    } else if (by_profile != nullptr &&
               !is_measured(plan, by_profile->function(), by_profile->revision, layout.device())) {
      ++unmeasured;
    } else if (layout.free_memory() < memory) {
      ++poor;
      most_memory = std::max(most_memory, layout.free_memory());
    } else {
      ++full;
      const std::optional<Opening> largest = layout.largest_opening();
      if (area(largest) > area(most)) most = largest, most_on = layout.device().id;
    }
  }
  const auto are = [](int n, const char* one, const char* several) {
    return std::to_string(n) + (n == 1 ? one : several);
  };
  const std::string left =
      !most ? "nothing is free"
            : "at most " + slice_text(most->sm, most->quota) + " is free, on " + most_on;
  Words words;
  if (full > 0) words.add(are(full, " is", " are") + " too full (" + left + ")");
  if (poor > 0)
    words.add(are(poor, " lacks", " lack") + " " + mebibytes(memory) + " of memory (at most " +
              mebibytes(most_memory) + " is free)");
  if (unmeasured > 0)
    words.add(are(unmeasured, " is of a type", " are of types") + " that it was never measured on");
  if (others == 1) words.add(first_other);
  if (others > 1) words.add(std::to_string(others) + " run other arbiters (" + first_other + ")");
  if (cordoned > 0) words.add(are(cordoned, " is", " are") + " cordoned");
  if (away > 0) words.add(are(away, " is", " are") + " unreachable");
  std::ranges::copy(nonzero({{"devices_full", full},
                             {"devices_without_memory", poor},
                             {"devices_never_measured", unmeasured},
                             {"devices_of_other_arbiters", others},
                             {"devices_drained", cordoned},
                             {"devices_away", away},
                             {"most_free", static_cast<double>(area(most)) / 1e6}}),
                    std::back_inserter(numbers));
  return words.text();
}

// " a holds 100 % of a device, b (never measured) 25 %.", the largest first.
std::string by_function(const ClusterPlan& plan) {
  constexpr size_t kNamed = 6;
  struct Holder {
    std::string name;
    int64_t area = 0;
  };
  std::map<std::string, int64_t> held;
  for (size_t k = 0; k < plan.layouts().size(); ++k) {
    const Layout& layout = plan.layouts()[k];
    for (const Room& room : layout.rooms()) {
      const Instance& i = plan.instance(room.id);
      std::string name = i.function.name.empty() ? i.id : served_name(i.function);
      if (i.state == InstanceState::kDraining) {
        name += " (draining)";
      } else if (is_worker(room)) {
        name += " (training)";
      } else if (!i.function.name.empty() &&
                 !is_measured(plan, i.function, i.revision, layout.device())) {
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

Reason shortage(const ClusterPlan& plan, std::string lead, const std::string& what, Bytes memory,
                Numbers numbers, const Demand* by_profile) {
  Reason reason{"cluster-full", std::move(lead), std::move(numbers)};
  const size_t devices = plan.layouts().size();
  if (devices == 0) {
    reason.text += "no device is of a type that its file allows (device, deviceTypes).";
    return reason;
  }
  reason.text += "of " + counted(static_cast<int>(devices), "device") + " none has room for " +
                 what + ": " + by_device(plan, memory, by_profile, reason.numbers) + "." +
                 by_function(plan);
  const std::string_view bound = plan.layouts().placement().bound;
  if (!bound.empty()) reason.text.append(" ").append(bound);
  return reason;
}

}  // namespace sluice::policy
