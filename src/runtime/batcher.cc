#include "runtime/batcher.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace sluice::runtime {
namespace {

// Announced requests come over the same connection within a round trip. If their sender has died,
// the batch must not wait for them for long.
constexpr Nanos kFollowWithin = Millis(2);

}  // namespace

// The waiting items that would run together with `head`, the oldest of their key.
struct Batcher::Group {
  std::vector<size_t> members;  // positions, ascending; as many as fit
  bool full = false;
  // Announced by requests of the key and not come yet; nothing if none were announced.
  std::optional<int> missing;
};

Batcher::Group Batcher::group_of(size_t head) const {
  Group group;
  int inferences = 0;
  for (size_t i = head; i < waiting_.size(); ++i) {
    if (waiting_[i].key != waiting_[head].key) continue;
    if (waiting_[i].more)
      group.missing = waiting_[i].more;
    else if (group.missing)
      --*group.missing;
    if (group.full) continue;
    inferences += waiting_[i].inferences;
    if (inferences <= config_.max_size || group.members.empty()) group.members.push_back(i);
    group.full = inferences >= config_.max_size;
  }
  return group;
}

Time Batcher::start_of(const Group& group) const {
  const BatchItem& oldest = waiting_[group.members.front()];
  if (group.full || (group.missing && *group.missing <= 0)) return oldest.arrived;
  return oldest.arrived +
         (group.missing ? std::max(config_.max_delay, kFollowWithin) : config_.max_delay);
}

std::vector<uint64_t> Batcher::take(const Group& group) {
  std::vector<uint64_t> tickets;
  for (const size_t i : group.members) tickets.push_back(waiting_[i].ticket);
  for (auto i = group.members.rbegin(); i != group.members.rend(); ++i)
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(*i));
  return tickets;
}

Batcher::Next Batcher::next(Time now) {
  Next next;
  std::set<std::string_view> seen;
  for (size_t head = 0; head < waiting_.size(); ++head) {
    if (!seen.insert(waiting_[head].key).second) continue;
    const Group group = group_of(head);
    const Time start = start_of(group);
    if (start <= now) {
      next.batch = take(group);
      next.wake = Time::max();
      return next;
    }
    next.wake = std::min(next.wake, start);
  }
  return next;
}

}  // namespace sluice::runtime
