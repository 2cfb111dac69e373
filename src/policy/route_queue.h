// DeadlineQueue<T>: the requests of a function that wait, T being whatever the gateway keeps of
// one. Earliest deadline first, but a request that is already lost goes behind all others: serving
// it would make the next one late too, and one late request would turn into a late queue. Lost
// means that even the fastest service cannot be in time: now + fastest > deadline.
//
// The lost are exactly the front of the deadline order, so one ordered map holds both and the line
// between them is looked up at each pop; an estimate that changes moves the line, nothing else.
// push, pop and remove are O(log n); entries are recycled, so a warm queue does not allocate.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace sluice::policy {

template <class T>
class DeadlineQueue {
 public:
  // Names a waiting request. Equal deadlines go first come, first served.
  struct Ticket {
    Time deadline{};
    uint64_t number = 0;

    auto operator<=>(const Ticket&) const = default;
  };

  Ticket push(Time deadline, T request) {
    const Ticket ticket{deadline, next_number_++};
    if (spare_.empty()) {
      waiting_.emplace(ticket, std::move(request));
      return ticket;
    }
    Node node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = ticket;
    node.mapped() = std::move(request);
    waiting_.insert(std::move(node));
    return ticket;
  }

  // Takes the request that goes next; `fastest` is the shortest time an answer could take.
  std::optional<T> pop(Time now, Nanos fastest) {
    if (waiting_.empty()) return std::nullopt;
    auto next = waiting_.lower_bound(Ticket{now + fastest, 0});
    if (next == waiting_.end()) next = waiting_.begin();  // only lost ones are left
    return take(next);
  }

  // Takes out one that stopped waiting (its client left, its time ran out); nothing if it is gone.
  std::optional<T> remove(const Ticket& ticket) {
    const auto found = waiting_.find(ticket);
    if (found == waiting_.end()) return std::nullopt;
    return take(found);
  }

  size_t size() const { return waiting_.size(); }
  bool empty() const { return waiting_.empty(); }

 private:
  using Map = std::map<Ticket, T>;
  using Node = typename Map::node_type;
  static constexpr size_t kMostSpare = 1024;

  std::optional<T> take(typename Map::iterator it) {
    Node node = waiting_.extract(it);
    std::optional<T> request(std::move(node.mapped()));
    if (spare_.size() < kMostSpare) {
      node.mapped() = T{};  // what it held is released now, not when the entry is used again
      spare_.push_back(std::move(node));
    }
    return request;
  }

  Map waiting_;
  std::vector<Node> spare_;
  uint64_t next_number_ = 1;
};

}  // namespace sluice::policy
