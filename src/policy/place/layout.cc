#include "policy/place/layout.h"

#include <algorithm>

#include "arbiters/arbiter.h"
#include "base/check.h"

namespace sluice::policy {

Room room_of(const Instance& i, bool movable, const FunctionView* owner) {
  return {i.id,
          i.slice().sm,
          i.slice().quota.request,
          i.position(),
          i.slice().memory,
          movable,
          i.slice().quota.limit,
          owner,
          i.arbiter};
}

bool intersect(Share a_begin, Share a_length, Share b_begin, Share b_length) {
  return a_begin < b_begin + b_length && b_begin < a_begin + a_length;
}

bool overlap(const Room& a, const Room& b) {
  return intersect(a.position.sm_begin, a.sm, b.position.sm_begin, b.sm) &&
         intersect(a.position.time_begin, a.quota, b.position.time_begin, b.quota);
}

bool is_worker(const Room& room) {
  return room.owner != nullptr && !room.owner->spec.is_inference();
}

std::string_view arbiter_for(const Device& device, std::string_view runs, std::string_view named) {
  if (!device.arbiter.empty()) return device.arbiter;
  return runs == named ? named : arbiter_on(device.kind, named);
}

size_t Layout::index(const InstanceId& id) const {
  const auto it =
      std::find_if(rooms_.begin(), rooms_.end(), [&](const Room& r) { return r.id == id; });
  SLUICE_CHECK(it != rooms_.end(), id);
  return static_cast<size_t>(it - rooms_.begin());
}

int64_t Layout::occupancy() const {
  int64_t sum = 0;
  for (const Room& r : rooms_) sum += static_cast<int64_t>(r.sm.permille) * r.quota.permille;
  return sum;
}

Bytes Layout::free_memory() const {
  Bytes free = device().memory;
  for (const Room& r : rooms_) free -= r.memory;
  return free;
}

const Room* Layout::arbiter_from() const {
  if (!device().arbiter.empty()) return nullptr;
  const auto first = std::ranges::find_if(rooms_, [](const Room& r) { return !r.arbiter.empty(); });
  return first != rooms_.end() ? &*first : nullptr;
}

std::string_view Layout::arbiter() const {
  const Room* from = arbiter_from();
  return arbiter_for(device(), from != nullptr ? from->arbiter : "", arbiter_);
}

bool Layout::runs_another() const {
  if (arbiter_.empty()) return false;
  const Room* from = arbiter_from();
  return from != nullptr && from->arbiter != arbiter();
}

Share Layout::width(Share sm) const {
  return std::min(round_up(sm, device().sm_quantum), kWhole);
}

std::optional<Opening> Layout::largest_opening() const {
  const auto area = [](const Opening& o) { return int64_t{o.sm.permille} * o.quota.permille; };
  std::optional<Opening> best;
  const int step = std::max(1, device().sm_quantum.permille);
  for (int sm = step; sm < kWhole.permille + step; sm += step) {
    for (const Opening& o : openings(width({sm})))
      if (area(o) > (best ? area(*best) : 0)) best = o;
  }
  return best;
}

}  // namespace sluice::policy
