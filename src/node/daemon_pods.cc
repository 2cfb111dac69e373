// The node daemon where instances are Pods, and other Pods may have slices.
#include "base/log.h"
#include "model/quantity.h"
#include "node/daemon.h"

namespace sluice::node {

// Of Pods that were starting when the earlier daemon ended.
void Daemon::begin_births_anew() {
  for (const InstanceRecord& r : records_.state().instances)
    if (r.instance.state == InstanceState::kStarting) births_.begin(r.instance.id);
}

// A Pod's files and its user are its image's and its specification's.
Result<void> Daemon::can_be_pod(const StartRequest& q) const {
  if (q.parts.size() > 1)
    return Error{ErrorKind::kInvalid, "parts: an instance that is a Pod is on one device"};
  const Device* d = device(q.parts.front().device);
  if (d != nullptr && d->kind == DeviceKind::kCuda &&
      std::holds_alternative<ForkOfTemplate>(q.birth))
    return Error{ErrorKind::kInvalid,
                 "device: " + d->id + " is a GPU, and the model server computes on CPUs"};
  return can_be_on(q.parts, functions_mps_user());
}

// Its containers are found by the UID, now or once the kubelet has made them.
Result<const InstanceRecord*> Daemon::take_pod(const PodRequest& q) {
  if (!pods_) return Error{ErrorKind::kInvalid, "pods: instances are no Pods here"};
  SLUICE_TRY(check_id(q.id(), settings_.paths));
  if (const InstanceRecord* known = find(q.id()); known != nullptr) {
    if (alive(*known)) return known;
    SLUICE_TRY(records_.remove(q.id()));
  }
  InstanceRecord r;
  r.instance = {.id = q.id(), .function = function_name(q.name), .state = InstanceState::kReady};
  r.foreign = true;
  r.pod = q.uid;
  Result<void> entered = enter_somewhere(r, q.part, q.kind);
  if (!entered.ok()) return entered.error();
  const InstanceRecord* taken = find(q.id());
  log::info("{}: the Pod {} is under a slice of {} of {}", q.id(), q.name,
            format_share(q.part.slice.quota.request), taken->instance.device());
  return taken;
}

Result<void> Daemon::enter_somewhere(const InstanceRecord& r, const PartRequest& part,
                                     DeviceKind kind) {
  if (!part.device.empty()) return reservations_.enter(r, {part});
  Result<void> entered = Error{ErrorKind::kExhausted, "device: none here has that much space"};
  const std::vector<Device> devices = reservations_.ledger().devices();
  for (const Device& d : devices) {
    if (d.drained || d.kind != kind) continue;
    PartRequest here = part;
    here.device = d.id;
    entered = reservations_.enter(r, {here});
    if (entered.ok() || entered.error().kind != ErrorKind::kExhausted) break;
  }
  return entered;
}

}  // namespace sluice::node
