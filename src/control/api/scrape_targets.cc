#include "control/api/scrape_targets.h"

#include "control/metrics_pages.h"

namespace sluice::control {

using nlohmann::json;

json scrape_targets(const Control& control) {
  json out = json::array();
  for (const MetricsPage& page : metrics_pages(control.functions(), control.seen().instances)) {
    const Instance& i = find(control.seen().instances, page.instance)->instance;
    out.push_back({{"targets", json::array({page.address})},
                   {"labels",
                    {{"__metrics_path__", page.path},
                     {"namespace", i.function.space},
                     {"function", i.function.name},
                     {"revision", std::to_string(i.revision)},
                     {"instance", i.id},
                     {"device", i.device()}}}});
  }
  return out;
}

}  // namespace sluice::control
