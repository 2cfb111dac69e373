#include "node/pod_changes.h"

#include "base/printable.h"

namespace sluice::node {

PodChanges::PodChanges(Pods& pods, Records& records, LiveInstances& live)
    : pods_(pods), records_(records), live_(live) {
  pods_.listen([this](const InstanceId& id) { follow(id); });
}

// The process has ended before the API server says how: its record is gone by then, and gets the
// Pod's words once.
void PodChanges::follow(const InstanceId& id) {
  InstanceRecord* r = records_.find(id);
  if (r == nullptr || r->foreign) return;
  const std::optional<PodStatus> pod = pods_.find(r->instance.function.space, id);
  if (!pod) return;
  if (alive(*r)) {
    if (pod->leaves && r->pod == pod->uid) live_.leaves(id);
    return;
  }
  if (!pod->ended || pod->why.empty() || r->stopped || r->pod != pod->uid) return;
  const std::string why = printable("; its Pod: " + pod->why);
  if (r->error.ends_with(why)) return;
  r->error += why;
  records_.save_or_log();
}

}  // namespace sluice::node
