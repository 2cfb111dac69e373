#include "node/reservations.h"

#include <algorithm>

#include "base/log.h"
#include "node/program_home.h"
#include "node/shift_room.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

std::vector<Device> devices_of(const NodeState& state) {
  std::vector<Device> devices;
  for (const LocalDevice& d : state.devices) devices.push_back(d.device);
  return devices;
}

std::vector<PartRequest> requests_of(const Parts& parts) {
  std::vector<PartRequest> requests;
  for (const Part& p : parts) requests.push_back({p.device, p.slice, p.position});
  return requests;
}

}  // namespace

Reservations::Reservations(const Clock& clock, Records& records, Enforcer& enforcer,
                           std::optional<UidPool> uids, std::string arbiter)
    : clock_(clock),
      records_(records),
      enforcer_(enforcer),
      ledger_(devices_of(records.state()), std::move(arbiter)),
      uids_(std::move(uids)) {}

// Reserves a new or changed slice in the ledger. If it may lie anywhere in its lane and the lane
// has no such space in one piece, programs of one part that lie in the way are shifted. Functions'
// instances are not: the control loop has chosen their places.
Result<Promise> Reservations::reserve(const InstanceId& id, const std::vector<PartRequest>& parts,
                                      const std::string& arbiter) {
  const bool held = ledger_.promises().contains(id);
  const auto ask = [&](const std::vector<PartRequest>& wanted) {
    return held ? ledger_.change(id, wanted) : ledger_.reserve(id, wanted, arbiter);
  };
  Result<Promise> promised = ask(parts);
  if (promised.ok() || promised.error().kind != ErrorKind::kExhausted) return promised;
  if (parts.size() > 1 || parts[0].position) return promised;
  const auto& [device, slice, position] = parts[0];
  const auto may_shift = [&](const InstanceId& other) {
    const InstanceRecord& r = *records_.find(other);
    return r.foreign && r.instance.parts.size() == 1;
  };
  for (const Shift& s : shifts_for(ledger_, id, device, slice, may_shift)) {
    if (s.id == id) return ask({{device, slice, s.to}});
    SLUICE_TRY(resize(s.id, {{device, records_.find(s.id)->instance.slice(), s.to}}));
  }
  return promised;
}

// Takes a uid: the home's, if the program has one.
Result<uid_t> Reservations::uid_for(const InstanceRecord& record) {
  const auto* program = std::get_if<ExecOfProgram>(&record.birth);
  if (program == nullptr || program->home.empty()) return uids_->take();
  SLUICE_ASSIGN(owner, owner_of_home(program->home));
  if (uids_->has(owner)) {
    uids_->keep(owner);
    return owner;
  }
  SLUICE_ASSIGN(uid, uids_->take());
  if (const auto given = give_home(program->home, uid); !given.ok()) {
    uids_->give_back(uid);
    return given.error();
  }
  return uid;
}

Result<void> Reservations::enter(InstanceRecord record, const std::vector<PartRequest>& parts) {
  Instance& i = record.instance;
  SLUICE_ASSIGN(promised, reserve(i.id, parts, i.arbiter));
  SLUICE_STEP("enter: reserved");
  i.parts = promised.parts;
  i.arbiter = promised.arbiter;
  i.started = clock_.now();
  Result<void> outcome;
  if (uids_ && record.uid != 0) {
    uids_->keep(record.uid);
  } else if (uids_ && !is_fork(record.birth)) {
    const Result<uid_t> uid = uid_for(record);
    if (uid.ok())
      record.uid = *uid;
    else
      outcome = uid.error();
  }
  if (outcome.ok()) outcome = enforcer_.admit(record);
  SLUICE_STEP("enter: admitted");
  if (outcome.ok()) {
    outcome = records_.add(record);
    SLUICE_STEP("enter: saved");
    if (outcome.ok()) return {};
    enforcer_.release(record);
  }
  ledger_.release(i.id);
  if (uids_) uids_->give_back(record.uid);
  return outcome;
}

Result<void> Reservations::adopt(InstanceRecord& record) {
  Instance& i = record.instance;
  // Its devices may be cordoned by now; its reservation still holds.
  std::vector<Device> drained;
  for (const Part& p : i.parts)
    if (const Device* d = ledger_.find(p.device); d != nullptr && d->drained) drained.push_back(*d);
  for (const Device& d : drained) (void)ledger_.set_drained(d.id, false);
  // A later version may have arbiters that this one lacks.
  const bool runs_here = std::ranges::all_of(i.parts, [&](const Part& p) {
    const Device* d = ledger_.find(p.device);
    return d == nullptr || policy::check_arbiter(i.arbiter, d->kind).ok();
  });
  const bool in_use =
      std::ranges::any_of(i.parts, [&](const Part& p) { return ledger_.in_use(p.device); });
  const Result<Promise> kept =
      ledger_.reserve(i.id, requests_of(i.parts), in_use || !runs_here ? "" : i.arbiter);
  for (const Device& d : drained) (void)ledger_.set_drained(d.id, true, d.fault);
  if (!kept.ok()) return within(i.id, kept.error());
  i.arbiter = kept->arbiter;
  SLUICE_STEP("adopt: reserved");
  if (uids_ && record.uid != 0) uids_->keep(record.uid);
  return enforcer_.admit(record);
}

Result<void> Reservations::check_memory(const Part& before, const Slice& slice) const {
  const bool on_gpu = ledger_.find(before.device)->kind == DeviceKind::kCuda;
  if (!on_gpu || (slice.memory > 0) == (before.slice.memory > 0)) return {};
  return Error{ErrorKind::kInvalid,
               "slice.memory: " + std::to_string(slice.memory) +
                   ": whether a program's memory is counted (0: it is not) is settled " +
                   "when it comes; this one came with " + std::to_string(before.slice.memory)};
}

Result<const InstanceRecord*> Reservations::resize(const InstanceId& id,
                                                   const std::vector<PartRequest>& parts) {
  InstanceRecord* r = records_.find(id);
  if (r == nullptr || !alive(*r))
    return Error{ErrorKind::kNotFound, "there is no instance '" + id + "'"};
  const Instance before = r->instance;
  for (const PartRequest& p : parts)
    if (const Part* held = part_on(before.parts, p.device); held != nullptr)
      SLUICE_TRY(check_memory(*held, p.slice));
  SLUICE_ASSIGN(promised, reserve(id, parts, before.arbiter));
  r->instance.parts = promised.parts;
  SLUICE_STEP("resize: changed");
  Result<void> outcome = records_.save();
  SLUICE_STEP("resize: saved");
  if (outcome.ok()) outcome = enforcer_.apply_parts(*r, before.parts);
  SLUICE_STEP("resize: in force");
  if (!outcome.ok()) {
    r->instance = before;
    SLUICE_CHECK(ledger_.change(id, requests_of(before.parts)).ok(), "what was held fits");
    (void)records_.save();
    return outcome.error();
  }
  for (size_t k = 0; k < promised.parts.size(); ++k) {
    const Slice &was = before.parts[k].slice, &now = promised.parts[k].slice;
    log::info("{}: sm {} → {}, request {} → {} of {}", id, was.sm.permille, now.sm.permille,
              was.quota.request.permille, now.quota.request.permille, promised.parts[k].device);
  }
  return r;
}

void Reservations::release(const InstanceRecord& record) {
  enforcer_.release(record);
  ledger_.release(record.instance.id);
  if (uids_) uids_->give_back(record.uid);
}

void Reservations::share_uid(InstanceRecord& record, uid_t uid) {
  SLUICE_CHECK(uids_ && record.uid == 0, "a fork has no uid before its birth");
  uids_->keep(uid);
  record.uid = uid;
}

Result<void> Reservations::set_drained(const DeviceId& device, bool drained,
                                       const std::string& fault) {
  SLUICE_TRY(ledger_.set_drained(device, drained, fault));
  return records_.set_drained(device, drained, fault);
}

}  // namespace sluice::node
