// place: where a new instance goes. A bundle names a placement of the table. Its scaling policy
// states the need, and gets the spots, or none. A placement is one file with its rule, its test,
// and one line in the table of place.cc.
//
// Pure. Layouts and DeviceQueue are not thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/place/layout.h"

namespace sluice::policy {

class Layouts;

struct PlaceRequest {
  const FunctionView* function = nullptr;  // the instance's function
  Share sm;                                // of each part; rounded up to the device's quantum
  Quota quota;                             // of each part
  Bytes memory = 0;                        // of each part
  int parts = 1;                           // each on a device of its own
  const Device* like = nullptr;            // only devices alike it; `complementary` takes any
  // Only devices without the function's instances; others than `complementary` ignore it.
  bool apart = false;
};

// The place of a part.
struct Spot {
  Layout* device = nullptr;
  Opening opening;
};

struct Placement {
  std::string_view name;
  std::string_view summary;  // one line for --help
  std::unique_ptr<Layout> (*layout)(const Device& device);
  // Returns a spot for each part; empty if not all of them fit. Takes nothing yet.
  std::vector<Spot> (*place)(Layouts& layouts, const PlaceRequest& request);
  // What it keeps to beyond free space and memory, a sentence; empty: nothing.
  std::string_view bound = {};
};

std::span<const Placement> placements();
const Placement* find_placement(std::string_view name);  // nullptr: unknown name

// A device's place by rising occupancy; of equal ones by index.
using DeviceRank = std::pair<int64_t, size_t>;

// All devices of a snapshot, by id, each laid out by the placement once it is asked for. What is
// put into a spot is put there before the next question, or through operator[]: else orders and the
// index do not see it.
class Layouts {
 public:
  // What a placement keeps between two calls, to examine only the devices that changed.
  struct Index {
    virtual ~Index() = default;
  };

  // Adds a device's rectangles to its empty layout.
  using Fill = std::function<void(size_t device, Layout& layout)>;

  // For a bundle of that arbiter; empty: any. `devices` and the name must outlive it, and what
  // `fill` refers to. Without `fill` all devices are empty at first.
  Layouts(std::span<const Device> devices, const Placement& placement,
          std::string_view arbiter = {}, Fill fill = nullptr);

  size_t size() const { return all_.size(); }
  Layout& operator[](size_t i) {
    if (!changed_.has[i]) changed_.add(i);
    if (emptiest_.made && !emptiest_.changed.has[i]) emptiest_.changed.add(i);
    return made(i);
  }
  const Layout& operator[](size_t i) const { return made(i); }
  // Returns whether the device was ever asked for; else it is as it was filled.
  bool asked_for(size_t i) const { return all_[i] != nullptr; }
  const Placement& placement() const { return *placement_; }
  // Asks the placement for spots.
  std::vector<Spot> place(const PlaceRequest& request) { return placement_->place(*this, request); }

  // The placement's; made at its first call.
  template <class T, class... Arguments>
  T& index(const Arguments&... arguments) {
    if (index_ == nullptr) index_ = std::make_unique<T>(arguments...);
    return dynamic_cast<T&>(*index_);
  }
  // Returns the devices that may have changed since the last call, at first all. One that is
  // reached through operator[] of a Layouts that is not const may change.
  std::vector<size_t> take_changed() { return changed_.take(); }
  // The devices of which takes() holds, but for their memory, the least occupied first.
  const std::set<DeviceRank>& emptiest_first();

 private:
  // Numbers of devices, each once.
  struct Numbers {
    std::vector<bool> has;
    std::vector<size_t> list;

    void add(size_t i) { has[i] = true, list.push_back(i); }
    std::vector<size_t> take();
  };
  struct Order {
    bool made = false;
    Numbers changed;
    std::set<DeviceRank> devices;
    std::vector<std::optional<DeviceRank>> rank;  // in `devices`, by device
  };

  Layout& made(size_t i) const {
    if (all_[i] == nullptr) make(i);
    return *all_[i];
  }
  void make(size_t i) const;

  std::span<const Device> devices_;
  const Placement* placement_;
  std::string_view arbiter_;
  Fill fill_;
  std::unique_ptr<Index> index_;
  Numbers changed_;
  Order emptiest_;                                    // made when it is asked for
  mutable std::vector<std::unique_ptr<Layout>> all_;  // null: not asked for yet
};

// Returns whether the device takes another instance, apart from free space: it is not cordoned,
// runs no other arbiter, and has the memory.
bool takes(const Layout& layout, Bytes memory);
bool takes(const Layout& layout, const PlaceRequest& request);  // also: of the wanted type

// The devices that take an instance with that memory, the least occupied first.
class DeviceQueue {
 public:
  DeviceQueue(Layouts& layouts, Bytes memory)
      : layouts_(layouts), memory_(memory), devices_(layouts.emptiest_first()) {}
  Layout* next();  // nullptr: no more

 private:
  Layouts& layouts_;
  const Bytes memory_;
  const std::set<DeviceRank>& devices_;
  std::optional<DeviceRank> last_;
};

// Returns spots by taking devices in that order, and the first free rectangle of each that is large
// enough.
std::vector<Spot> emptiest_fit(Layouts& layouts, const PlaceRequest& request);

}  // namespace sluice::policy
