#include "control/api/history.h"

#include <algorithm>
#include <iterator>

#include "control/routes.h"
#include "wire/json/function_json.h"

namespace sluice::control {

using nlohmann::json;

namespace {

constexpr size_t kHours = 10 * ArrivalHistory::kHours;  // of a page, or some more

}  // namespace

json history(const Control& control, const std::string& after) {
  json functions = json::array(), profiles = json::array();
  const auto& all = control.functions();
  auto at = after.empty() ? all.begin() : all.upper_bound(function_name(after));
  for (size_t hours_left = kHours; at != all.end(); ++at) {
    const FunctionState& state = at->second;
    if (hours_left == 0) {
      const std::string last = to_string(std::prev(at)->first);
      return json{{"functions", functions}, {"next", last}};
    }
    FunctionSpec spec = spec_of(state.stored, state.stored.newest);
    if (!spec.is_inference()) continue;
    spec.inference().token.clear();
    json arrivals = json::array();
    for (const auto& [hour, minutes] : state.arrivals->hours())
      arrivals.push_back({{"hour", hour}, {"minutes", minutes}});
    hours_left -= std::min(hours_left, arrivals.size() + 1);
    functions.push_back({{"specification", wire::to_json(spec)}, {"arrivals", arrivals}});
  }
  for (const auto& [key, profile] : control.profiles().all()) profiles.push_back(to_json(profile));
  return json{{"functions", functions}, {"profiles", profiles}};
}

}  // namespace sluice::control
