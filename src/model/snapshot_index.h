// SnapshotIndex: which function and which device an instance of a snapshot belongs to, which
// instances a function and a device have, and where a name stands, each in one step. Made once a
// decision. It holds positions in the snapshot's vectors, which must outlive it unchanged.
//
// Immutable, so that threads may share it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/snapshot.h"

namespace sluice {

class SnapshotIndex {
 public:
  explicit SnapshotIndex(const Snapshot& snapshot);

  // Nothing: the snapshot does not have it.
  std::optional<uint32_t> function(const FunctionName& name) const;
  std::optional<uint32_t> device(std::string_view id) const;
  std::optional<uint32_t> instance(std::string_view id) const;
  std::optional<uint32_t> function_of(uint32_t instance) const { return function_of_[instance]; }
  std::optional<uint32_t> device_of(uint32_t instance) const { return device_of_[instance]; }

  // Instances, ascending.
  std::span<const uint32_t> of_function(uint32_t function) const { return by_function_[function]; }
  std::span<const uint32_t> on_device(uint32_t device) const { return by_device_[device]; }

 private:
  // Lists of numbers, one after the other in one vector.
  class Lists {
   public:
    Lists() = default;
    Lists(size_t lists, const std::vector<std::optional<uint32_t>>& list_of);
    std::span<const uint32_t> operator[](uint32_t list) const {
      return {numbers_.data() + begin_[list], numbers_.data() + begin_[list + 1]};
    }

   private:
    std::vector<uint32_t> begin_, numbers_;
  };
  // Devices by the hash of their id, in a table of open addressing: each instance asks for its own.
  class DeviceTable {
   public:
    explicit DeviceTable(const std::vector<Device>& devices);
    std::optional<uint32_t> find(std::string_view id) const;

   private:
    static constexpr uint32_t kEmpty = UINT32_MAX;
    struct Slot {
      uint32_t device = kEmpty;
      uint32_t hash = 0;
    };
    size_t after(size_t slot) const { return (slot + 1) & (slots_.size() - 1); }

    const std::vector<Device>& devices_;
    std::vector<Slot> slots_;  // a power of two
  };

  const Snapshot& snapshot_;
  DeviceTable devices_;
  std::vector<std::optional<uint32_t>> function_of_, device_of_;
  Lists by_function_, by_device_;
};

}  // namespace sluice
