// What changes the ledger: a slice that comes and one that is resized. Each is on disk before it is
// in force, and undone where it cannot be.
#include "base/log.h"
#include "node/daemon.h"
#include "node/shift_room.h"
#include "wire/permit_steps.h"

namespace sluice::node {

// A slice, new or changed, in the ledger. Where it may lie anywhere in its lane and the lane has no
// such room in one piece, programs that lie in the way are shifted; functions' instances are not,
// for the control loop has chosen their places.
Result<Promise> Daemon::promise(const InstanceId& id, const DeviceId& device, const Slice& slice,
                                const std::optional<Position>& position) {
  const bool held = ledger_.promises().contains(id);
  const auto ask = [&](const std::optional<Position>& at) {
    return held ? ledger_.change(id, slice, at) : ledger_.reserve(id, device, slice, at);
  };
  Result<Promise> promised = ask(position);
  if (promised.ok() || promised.error().kind != ErrorKind::kExhausted || position) return promised;
  for (const Shift& s : shifts_for(ledger_, id, device, slice,
                                   [&](const InstanceId& other) { return find(other)->foreign; })) {
    if (s.id == id) return ask(s.to);
    SLUICE_TRY(resize(s.id, find(s.id)->instance.slice, s.to));
  }
  return promised;
}

// Reserves, admits and records; undoes all of it when a step fails.
Result<void> Daemon::enter(InstanceRecord record, const std::optional<Position>& position) {
  Instance& i = record.instance;
  SLUICE_ASSIGN(promised, promise(i.id, i.device, i.slice, position));
  SLUICE_STEP("enter: reserved");
  i.position = promised.position;
  i.started = clock_.now();
  Result<void> outcome;
  if (settings_.own_uids && !record.foreign) {
    const Result<uid_t> uid = uids_.take();
    if (uid.ok())
      record.uid = *uid;
    else
      outcome = uid.error();
  }
  if (outcome.ok()) outcome = enforcer_->admit(record);
  SLUICE_STEP("enter: admitted");
  if (outcome.ok()) {
    state_.instances.push_back(record);
    outcome = save();
    SLUICE_STEP("enter: saved");
    if (outcome.ok()) return {};
    state_.instances.pop_back();
    enforcer_->release(record);
  }
  ledger_.release(i.id);
  uids_.give_back(record.uid);
  return outcome;
}

Result<const InstanceRecord*> Daemon::resize(const InstanceId& id, const Slice& slice,
                                             const std::optional<Position>& position) {
  InstanceRecord* r = find_record(id);
  if (r == nullptr || !alive(*r))
    return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  const Instance before = r->instance;
  const bool on_gpu = ledger_.find(before.device)->kind == DeviceKind::kCuda;
  if (on_gpu && (slice.memory > 0) != (before.slice.memory > 0))
    return Error{ErrorKind::kInvalid,
                 "slice.memory: " + std::to_string(slice.memory) +
                     ": whether a program's memory is counted (0: it is not) is settled " +
                     "when it comes; this one came with " + std::to_string(before.slice.memory)};
  SLUICE_ASSIGN(promised, promise(id, before.device, slice, position));
  r->instance.slice = promised.slice;
  r->instance.position = promised.position;
  SLUICE_STEP("resize: changed");
  Result<void> outcome = save();
  SLUICE_STEP("resize: saved");
  if (outcome.ok()) outcome = enforcer_->resize(*r);
  SLUICE_STEP("resize: in force");
  if (!outcome.ok()) {
    r->instance = before;
    SLUICE_CHECK(ledger_.change(id, before.slice, before.position).ok(), "what was held fits");
    (void)save();
    return outcome.error();
  }
  if (slice.sm != before.slice.sm)
    (void)live_[id].control.send(wire::Resize{
        .threads = static_cast<uint32_t>(threads_of(*ledger_.find(before.device), slice.sm))});
  log::info("{}: sm {} → {}, request {} → {}", id, before.slice.sm.permille, slice.sm.permille,
            before.slice.quota.request.permille, slice.quota.request.permille);
  return r;
}

}  // namespace sluice::node
