#include "control/api/scrape_targets.h"

#include <algorithm>
#include <string>

namespace sluice::control {
namespace {

using nlohmann::json;

// Returns the path of its metrics; empty: it has none, or is of no function that is known.
std::string metrics_path(const Control& control, const Instance& i) {
  const auto function = control.functions().find(i.function);
  if (function == control.functions().end()) return "";
  const std::vector<Revision>& revisions = function->second.stored.revisions;
  const auto revision = std::ranges::find(revisions, i.revision, &Revision::number);
  return revision == revisions.end() ? "" : revision->spec.model().program.metrics;
}

}  // namespace

json scrape_targets(const Control& control) {
  json out = json::array();
  for (const ObservedInstance& o : control.seen().instances) {
    const Instance& i = o.instance;
    if (!ours(o) || i.state != InstanceState::kReady || o.address.starts_with('/')) continue;
    const std::string path = metrics_path(control, i);
    if (path.empty()) continue;
    out.push_back({{"targets", json::array({o.address})},
                   {"labels",
                    {{"__metrics_path__", path},
                     {"namespace", i.function.space},
                     {"function", i.function.name},
                     {"revision", std::to_string(i.revision)},
                     {"instance", i.id},
                     {"device", i.device()}}}});
  }
  return out;
}

}  // namespace sluice::control
