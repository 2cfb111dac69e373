// Board: the plans of all jobs over the coming rounds (FaPES, SoCC '24, §5.3): how many devices of
// each node they hold in each round, and the price of a device there. Round 0 is the present one.
//
// A device of a node costs H × (U/H)^(held ÷ devices) in a round, in seconds. H and U are bounds of
// the jobs' completion times, so that a price compares with a time (reading A2). An empty node
// costs H, a full one U.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/plan/deal.h"

namespace sluice::policy {

// A job's workers by round, from the present one. A round without workers is empty.
using Schedule = std::vector<Placed>;

// Returns the price of a device of a node of which so many are held.
double device_price(double least, double most, int held, int devices);

class Board {
 public:
  // `devices`: of each node.
  Board(std::vector<int> devices, size_t rounds);

  // Sets H and U: H is at least one second, and U/H within [e, 10000].
  void set_bounds(double least, double most);
  double least() const { return least_; }
  double most() const { return most_; }

  size_t rounds() const { return held_.size(); }
  size_t nodes() const { return devices_.size(); }
  int devices(size_t node) const { return devices_[node]; }
  int free(size_t round, size_t node) const { return devices_[node] - held_[round][node]; }
  int free(size_t round) const;
  double price(size_t round, size_t node) const { return prices_[class_of(round, node)]; }
  double price(size_t round, const Placed& placed) const;

  // Returns whether every node has the schedule's devices free, in each of the board's rounds.
  bool fits(const Schedule& schedule) const;
  // Rounds beyond the board's last one are not kept.
  // REQUIRES: fits(schedule).
  void add(const Schedule& schedule) { change(schedule, 1); }
  // REQUIRES: it was added.
  void remove(const Schedule& schedule) { change(schedule, -1); }

  // Nodes with equally many devices of which equally many are held are of one class: a planner need
  // not tell them apart. Classes are numbered by price, the cheapest first.
  size_t classes() const { return classes_.size(); }
  int free_in(size_t c) const { return classes_[c].devices - classes_[c].held; }
  double price_in(size_t c) const { return prices_[c]; }
  std::span<const uint32_t> nodes_in(size_t round, size_t c) const { return members_[round][c]; }
  // Returns the price on the cheapest node with a free device; infinity: no node has one.
  double cheapest(size_t round) const;

 private:
  struct Class {
    int devices, held;
  };
  size_t class_of(size_t round, size_t node) const {
    const auto& of_held = class_by_held_[static_cast<size_t>(devices_[node])];
    return of_held[static_cast<size_t>(held_[round][node])];
  }
  void make_classes();
  void change(const Schedule& schedule, int sign);

  double least_ = 1, most_ = 1;  // H, U
  std::vector<int> devices_;
  std::vector<std::vector<int>> held_;                       // by round and node
  std::vector<Class> classes_;                               // by price
  std::vector<std::vector<size_t>> class_by_held_;           // by devices and held
  std::vector<double> prices_;                               // by class
  std::vector<std::vector<std::vector<uint32_t>>> members_;  // by round and class, ascending
};

}  // namespace sluice::policy
