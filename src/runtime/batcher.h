// Decides which waiting requests run together, and when. Requests may join a batch if their keys
// are equal (datatypes, dimensions behind the batch). A batch starts when it is full, when its
// oldest request has waited `max_delay`, or when the requests that it announced (`more`) have come.
// It waits shortly for announced requests, even beyond `max_delay`.
//
// Pure: the caller passes the time. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "model/function.h"

namespace sluice::runtime {

struct BatchItem {
  uint64_t ticket = 0;  // the caller's name for it
  int inferences = 1;   // rows that it brings; a request above the maximum runs alone
  std::string key;
  std::optional<int> more;  // so many for the same batch follow at once (header Sluice-More)
  Time arrived{};
};

class Batcher {
 public:
  explicit Batcher(Batching config) : config_(config) {}

  // REQUIRES: arrivals do not go back in time.
  void add(BatchItem item) { waiting_.push_back(std::move(item)); }

  struct Next {
    std::vector<uint64_t> batch;  // tickets, in order of arrival; empty: nothing may start yet
    Time wake = Time::max();      // when to ask again, if nothing arrives before
  };
  Next next(Time now);

  size_t waiting() const { return waiting_.size(); }

 private:
  struct Group;
  Group group_of(size_t head) const;
  Time start_of(const Group& group) const;
  std::vector<uint64_t> take(const Group& group);

  const Batching config_;
  std::deque<BatchItem> waiting_;
};

}  // namespace sluice::runtime
