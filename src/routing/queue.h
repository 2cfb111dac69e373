// DeadlineQueue<T>: the waiting requests of a function, T being the gateway's record of one.
// Earliest deadline first, but a lost request goes behind all others: serving it would make the
// next one late too, and one late request would turn into a late queue. Lost means that its answer
// is expected after the deadline: now + service > deadline.
//
// The lost are exactly the front of the deadline order, so one ordered map holds both. The line
// between them moves with time and with the estimate of `service`; how many lie before it is
// counted as it moves. push, pop and remove are O(log n); entries are recycled, so a warm queue
// does not allocate. Not thread-safe.
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
    lost_ += deadline < line_;
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

  // Takes the request that goes next; `service` is the time that an answer is expected to take.
  std::optional<T> pop(Time now, Nanos service) {
    if (waiting_.empty()) return std::nullopt;
    return take(next(now, service));
  }

  // The request that pop() would take; nullptr if none waits. It stays where it is.
  const T* head(Time now, Nanos service) const {
    return waiting_.empty() ? nullptr : &next(now, service)->second;
  }

  // Orders queues by the request that pop() would take: whether it is lost, then its deadline. An
  // empty queue comes last.
  std::pair<bool, Time> rank(Time now, Nanos service) const {
    if (waiting_.empty()) return {true, Time::max()};
    const Time deadline = next(now, service)->first.deadline;
    if (deadline == Time{}) return {true, Time::max() - Nanos(1)};
    return {deadline < now + service, deadline};
  }

  // Returns how many waiting requests are lost. Amortized O(1): each step of the line is counted
  // once.
  size_t lost(Time now, Nanos service) {
    const Time line = now + service;
    if (line > line_)
      for (auto it = waiting_.lower_bound({line_, 0});
           it != waiting_.end() && it->first.deadline < line; ++it)
        ++lost_;
    else
      for (auto it = waiting_.lower_bound({line, 0});
           it != waiting_.end() && it->first.deadline < line_; ++it)
        --lost_;
    line_ = line;
    return lost_;
  }
  // Takes the lost request whose deadline is the earliest; nothing if none is lost.
  std::optional<T> take_lost(Time now, Nanos service) {
    if (lost(now, service) == 0) return std::nullopt;
    return take(waiting_.begin());
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

  // The first that is not lost, else the first lost one, else one without a deadline (Time{}).
  // REQUIRES: one waits.
  auto next(Time now, Nanos service) const {
    auto found = waiting_.lower_bound(Ticket{now + service, 0});
    if (found == waiting_.end()) found = waiting_.upper_bound(Ticket{Time{}, UINT64_MAX});
    return found == waiting_.end() ? waiting_.begin() : found;
  }

  std::optional<T> take(typename Map::const_iterator it) {
    lost_ -= it->first.deadline < line_;
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
  Time line_{};      // requests due before it counted as lost when that was last asked
  size_t lost_ = 0;  // how many those are
};

}  // namespace sluice::policy
