// This node's reservations: the ledger, the instances' uids, and the enforcement and the record of
// each reservation. Every change is on disk before it is in force, and is undone if a step of it
// fails. So a daemon that dies at any moment loses no reservation.
//
// Not thread-safe; the daemon's loop owns it.
#pragma once

#include <optional>

#include "base/clock.h"
#include "node/enforcer.h"
#include "node/ledger.h"
#include "node/records.h"
#include "node/uid_pool.h"

namespace sluice::node {

class Reservations {
 public:
  // Without uids, instances have the daemon's. `arbiter`: a bundle's, for a device whose first
  // slice names none.
  Reservations(const Clock& clock, Records& records, Enforcer& enforcer,
               std::optional<UidPool> uids,
               std::string arbiter = std::string(policy::kDefaultArbiter));
  Reservations(const Reservations&) = delete;

  // Reserves all parts or none, admits and records; the record's parts are those that `parts` were
  // granted. A record without a uid gets one. A part without a position takes the first free one;
  // for an instance of one part, programs of `sluice run` may be shifted in time to make space.
  Result<void> enter(InstanceRecord record, const std::vector<PartRequest>& parts);
  // Takes over the reservation of an earlier daemon's record, also on a cordoned device. If the
  // device has another arbiter now, the record says so.
  Result<void> adopt(InstanceRecord& record);
  // Resizes all parts, in their order, or none. Returns when the new permit is in force.
  Result<const InstanceRecord*> resize(const InstanceId& id, const std::vector<PartRequest>& parts);
  // Frees the slice, its uid and its share. The record stays.
  void release(const InstanceRecord& record);

  // A cordoned device takes no new slices. `fault`: why it is cordoned; empty: on request.
  Result<void> set_drained(const DeviceId& device, bool drained, const std::string& fault);

  // Gives a fork its template's uid.
  void share_uid(InstanceRecord& record, uid_t uid);
  UidPool* uids() { return uids_ ? &*uids_ : nullptr; }

  const Ledger& ledger() const { return ledger_; }

 private:
  Result<void> check_memory(const Part& before, const Slice& slice) const;
  Result<Promise> reserve(const InstanceId& id, const std::vector<PartRequest>& parts,
                          const std::string& arbiter);
  Result<uid_t> uid_for(const InstanceRecord& record);

  const Clock& clock_;
  Records& records_;
  Enforcer& enforcer_;
  Ledger ledger_;
  std::optional<UidPool> uids_;
};

}  // namespace sluice::node
