#include "control/metrics_pages.h"

#include <algorithm>

namespace sluice::control {
namespace {

// Returns the path of its metrics; empty: it has none, or is of no function that is known.
std::string metrics_path(const Functions& functions, const Instance& i) {
  const auto function = functions.find(i.function);
  if (function == functions.end()) return "";
  const std::vector<Revision>& revisions = function->second.stored.revisions;
  const auto revision = std::ranges::find(revisions, i.revision, &Revision::number);
  return revision == revisions.end() ? "" : revision->spec.model().program.metrics;
}

}  // namespace

std::vector<MetricsPage> metrics_pages(const Functions& functions,
                                       const std::vector<ObservedInstance>& instances) {
  std::vector<MetricsPage> pages;
  for (const ObservedInstance& o : instances) {
    const Instance& i = o.instance;
    if (!ours(o) || i.state != InstanceState::kReady || o.address.starts_with('/')) continue;
    if (std::string path = metrics_path(functions, i); !path.empty())
      pages.push_back({i.id, o.address, std::move(path)});
  }
  return pages;
}

}  // namespace sluice::control
