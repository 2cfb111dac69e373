// Offers: the devices that take instances, by the free rectangles that they offer, so that a
// request examines one device instead of all those that are too full for it. A placement's index,
// also asked by has-gpu.
//
// Over Layouts that outlive it. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "policy/place/place.h"

namespace sluice::policy {

class Offers : public Layouts::Index {
 public:
  enum class Order { kLeastOccupiedFirst, kFullestFirst };  // of used devices; of equal ones by id
  using Rank = std::pair<int64_t, size_t>;                  // the place in that order, the device
  using Devices = std::set<Rank>;
  using ByQuota = std::map<Share, Devices>;

  // Devices that are alike, of one quantum.
  class Kind {
   public:
    explicit Kind(const Device& example) : example_(&example) {}
    const Device& example() const { return *example_; }

   private:
    friend class Offers;
    const Device* example_;
    std::vector<size_t> unused_;  // ascending; also such as have been used since
    size_t begin_ = 0;            // of the unused ones
    Devices used_;
    std::map<Share, ByQuota> by_width_;  // of the widths that were asked for
  };

  explicit Offers(Order order = Order::kLeastOccupiedFirst) : order_(order) {}

  // Takes in what has changed since the last call. Returns the kinds.
  std::deque<Kind>& update(Layouts& layouts);
  // Returns the kind's used devices by the quotas that a rectangle of that width can have there. A
  // device with several free rectangles may be under several quotas.
  // REQUIRES: the width is one of the quantum's.
  const ByQuota& used(Kind& kind, const Layouts& layouts, Share sm);
  // Returns the first of the kind's unused devices with that memory that is none of `but`.
  static std::optional<size_t> unused(Kind& kind, const Layouts& layouts, Bytes memory,
                                      std::span<const size_t> but = {});

 private:
  // What is known of a device.
  struct Known {
    Kind* kind = nullptr;
    std::optional<Rank> rank;                       // of a used one that takes instances
    bool unused = false;                            // it is among its kind's
    std::vector<std::pair<ByQuota*, Share>> under;  // the lists that have it
  };
  Kind& kind_of(const Device& device);
  void add(const Layouts& layouts, size_t i);
  void remove(size_t i);
  void offer(const Layouts& layouts, Share sm, ByQuota& offers, size_t i);

  const Order order_;
  std::deque<Kind> kinds_;
  std::vector<Known> known_;  // by device
};

// Returns the first of the devices with that memory that is none of `but`, if it comes before
// `bound`.
std::optional<Offers::Rank> first_of(const Offers::Devices& devices, const Layouts& layouts,
                                     Bytes memory, const std::optional<Offers::Rank>& bound,
                                     std::span<const size_t> but = {});

// Returns spots by taking used devices in that order, then new ones, and the first free rectangle
// of each that is large enough.
std::vector<Spot> first_offered(Layouts& layouts, const PlaceRequest& request, Offers::Order order);

}  // namespace sluice::policy
