// This node's reservations: on each device, rectangles in space × time and memory. Accepts or
// refuses with the reason; never gives anything out twice. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "arbiters/arbiter.h"
#include "base/result.h"
#include "model/device.h"
#include "model/instance.h"

namespace sluice::node {

// A requested part.
struct PartRequest {
  DeviceId device;
  Slice slice;
  std::optional<Position> position;  // absent: the first free one, or the part's own

  bool operator==(const PartRequest&) const = default;
};

// An instance's reservation, and the arbiter that its devices run for it.
struct Promise {
  Parts parts;
  std::string arbiter;

  bool operator==(const Promise&) const = default;
};

class Ledger {
 public:
  // `arbiter`: a bundle's, for a device whose first slice names none (policy::arbiter_on).
  explicit Ledger(std::vector<Device> devices,
                  std::string arbiter = std::string(policy::kDefaultArbiter));

  // Reserves all parts of a new instance, or none. Errors: kInvalid: no such device can ever hold
  // one; kExhausted: not now; kConflict: `id` holds something already, or a device is in use and
  // runs another arbiter than the instance's. For several parts, the message names the device of
  // the refused one. All devices of an instance run one arbiter: the user's, else `arbiter`, else
  // that of a device in use. One that a device cannot run is kInvalid.
  Result<Promise> reserve(const InstanceId& id, const std::vector<PartRequest>& wanted,
                          const std::string& arbiter = "");

  // Changes all parts, given in their order, or none. A part without a position stays where it is.
  // If it does not fit there, it moves in time within its lane, never in space.
  Result<Promise> change(const InstanceId& id, const std::vector<PartRequest>& wanted);

  void release(const InstanceId& id);  // ignores an unknown id

  // A cordoned device takes no new slice; its slices stay and may change. `fault`: why it failed;
  // empty: it is cordoned on request. Returns kNotFound, or kInvalid if it is set apart, and so
  // stays cordoned.
  Result<void> set_drained(const DeviceId& device, bool drained, const std::string& fault = "");

  const std::vector<Device>& devices() const { return devices_; }
  const Device* find(const DeviceId& id) const;
  bool in_use(const DeviceId& id) const { return first_on(id) != promises_.end(); }
  const std::map<InstanceId, Promise>& promises() const { return promises_; }

 private:
  using Promises = std::map<InstanceId, Promise>;
  Promises::const_iterator first_on(const DeviceId& device) const;
  Result<std::string> arbiter_for(const InstanceId& id, const std::vector<PartRequest>& wanted,
                                  const std::string& named) const;
  Result<Part> fit_new(const InstanceId& id, const PartRequest& wanted) const;
  Result<Part> fit_changed(const InstanceId& id, Part part, const PartRequest& wanted) const;
  Result<void> check_room(const Part& wanted, const InstanceId& but) const;
  std::optional<Position> first_free(const Part& wanted, const InstanceId& but,
                                     std::optional<Share> sm_begin) const;

  std::vector<Device> devices_;
  std::string arbiter_;
  Promises promises_;
};

// Returns the part on this device; nullptr if there is none.
const Part* part_on(const Parts& parts, const DeviceId& device);

}  // namespace sluice::node
