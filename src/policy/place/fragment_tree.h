// FragmentTree: what is free on each of many devices, and a search for the one that a part leaves
// the least fragment of, by Dilu's score (place_dilu.h). The devices are the leaves of a binary
// tree; a node has the most that is free on any device below it, and the least score. A search
// skips what cannot take the part or cannot be better, which is nearly all.
//
// A plain value, not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "policy/place/layout.h"

namespace sluice::policy {

// Free on a device, within Ω, γ and its memory. Time is in thousandths of the device.
struct Fragment {
  int32_t request = -1, limit = -1;  // negative: it takes nothing
  Bytes memory = -1;
  // α · request + β · memory, in millionths of fifths; above all others' while the device is
  // unused.
  int64_t score = std::numeric_limits<int64_t>::max();

  bool operator==(const Fragment&) const = default;
};
Fragment fragment_of(const Layout& device);

// What a part takes of a device, and its sides.
struct Piece {
  int32_t request = 0, limit = 0;
  Bytes memory = 0;
  Share sm, time;
};
Piece piece_of(Share sm, Quota quota, Bytes memory);

inline bool fits(const Piece& piece, const Fragment& in) {
  return in.request >= piece.request && in.limit >= piece.limit && in.memory >= piece.memory;
}

class FragmentTree {
 public:
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
  struct Search {
    Piece piece;
    std::span<const size_t> passed_over;  // devices
    int64_t lowers = 0;      // the score by β · memory, at most, whichever device has the part
    size_t best = kNowhere;  // so far; of equal ones the first
    int64_t score = std::numeric_limits<int64_t>::max();
  };

  // With the total memory of each device; they take nothing yet.
  explicit FragmentTree(std::vector<Bytes> memories);

  void set(size_t device, const Fragment& fragment);
  // The device has no free rectangle for the piece, nor for a longer one, until the next set().
  void refuse(size_t device, const Piece& piece);
  const Fragment& at(size_t device) const { return nodes_[leaves_ + device]; }
  Search search(const Piece& piece, std::span<const size_t> passed_over) const;
  void try_one(size_t device, Search& search) const;
  void try_all(Search& search) const;

 private:
  bool may_be_better(size_t node, size_t first, const Search& search) const;
  void try_below(size_t node, size_t first, size_t count, Search& search) const;

  struct Sides {
    Share sm, time;
  };
  std::vector<Bytes> memories_;
  std::vector<std::vector<Sides>> refused_;  // by device; one of each width
  Bytes least_memory_ = std::numeric_limits<Bytes>::max();
  size_t leaves_ = 1;            // a power of two
  std::vector<Fragment> nodes_;  // the root is 1, the children of n are 2n and 2n + 1
};

}  // namespace sluice::policy
