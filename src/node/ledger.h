// What this node has promised: on each device rectangles in space × time and memory. Accepts or
// refuses with the reason; never gives out a thing twice. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/device.h"
#include "model/instance.h"

namespace sluice::node {

struct Promise {
  DeviceId device;
  Slice slice;
  Position position;

  bool operator==(const Promise&) const = default;
};

class Ledger {
 public:
  explicit Ledger(std::vector<Device> devices);

  // Promises a new slice. kInvalid: no such device can ever hold it; kExhausted: not now;
  // kConflict: `id` holds something already. Without a position, the first that is free.
  Result<Promise> reserve(const InstanceId& id, const DeviceId& device, const Slice& slice,
                          const std::optional<Position>& position);

  // What change() would promise; nothing changes. Without a position it stays where it is, or
  // where that does not fit, moves in time within its lane, never in space.
  Result<Promise> try_change(const InstanceId& id, const Slice& slice,
                             const std::optional<Position>& position) const;
  Result<Promise> change(const InstanceId& id, const Slice& slice,
                         const std::optional<Position>& position);

  void release(const InstanceId& id);  // unknown: nothing happens

  // A drained device takes no new slice; what it holds stays and may change. `fault`: it fails, and
  // so; empty where it was asked for. kNotFound; kInvalid: it is set apart, and stays drained.
  Result<void> set_drained(const DeviceId& device, bool drained, const std::string& fault = "");

  const std::vector<Device>& devices() const { return devices_; }
  const Device* find(const DeviceId& id) const;
  const std::map<InstanceId, Promise>& promises() const { return promises_; }

 private:
  Result<void> check_room(const Promise& wanted, const InstanceId& but) const;
  std::optional<Position> first_free(const Promise& wanted, const InstanceId& but,
                                     std::optional<Share> sm_begin) const;

  std::vector<Device> devices_;
  std::map<InstanceId, Promise> promises_;
};

}  // namespace sluice::node
