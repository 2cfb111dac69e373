// The meter's bound on what is in flight, and the threads that wait for it (meter.h).
#include "hook/meter.h"
#include "hook/meter_parts.h"

namespace sluice::hook {
namespace {

constexpr uint64_t kUnknownMiB = 100'000;  // 10 GB/s, until a copy was timed
constexpr uint64_t kUnknownNs = 10'000;    // a kernel or graph, until its end is seen
constexpr uint64_t kLongNapNs = 500'000;
constexpr uint64_t kSoonNs = 40'000;  // a thread that sleeps may wake up too late
constexpr int kLooksAtOnce = 40;      // some 60 us; then the processor is left to others
constexpr int kPauses = 32;           // between two of them: about a microsecond

// Until the next look, of so many without a sleep. So the end of all that is in flight is waited
// for when it is near, for the device stands idle from then on.
void wait_to_look(uint64_t wait, uint64_t left, int& looks) {
  if (left > kSoonNs || looks == kLooksAtOnce)
    return sluice_nap(larger(kNapNs, smaller(smaller(wait, left) / 2, kLongNapNs)));
  ++looks;
  for (int i = 0; i < kPauses; ++i) pause_processor();
}

}  // namespace

Meter::Room Meter::room(sluice_attachment* at, uint64_t now) const {
  const sluice_allowance a = sluice_allowance_of(at, now);
  if (a.allowed_ns == UINT64_MAX) return {kInFlightNs, UINT64_MAX};
  const uint64_t from = told_ == at ? told_from_ns_ : lanes_.finished_ns();
  const uint64_t submitted = larger(lanes_.submitted_ns(), from) - from + lanes_.leave_ns();
  const uint64_t left = a.allowed_ns > submitted ? a.allowed_ns - submitted : 0;
  return {smaller(a.in_flight_ns, larger(left, kLeastInFlightNs)), left};
}

// What is in flight, if the device has done nothing else since the last end that is known. Too
// little where it has, so this says when to look again, and not what may be submitted.
uint64_t Meter::left_ns(uint64_t now) {
  uint64_t reached = 0;
  lanes_.for_each([&](const Lane& lane) { reached = larger(reached, lane.reached_ns); });
  const uint64_t all = lanes_.in_flight_ns();
  return all - smaller(all, now - smaller(reached, now));
}

// How long until the unit fits, as far as can be told; 0: it does. What runs counts with what is
// left of it by its expected time. Units longer than the bound follow one that is nearly done.
uint64_t Meter::too_early_ns(const Lane& lane, uint64_t cost, const Room& room,
                             uint64_t now) const {
  const uint64_t all = lanes_.in_flight_ns();
  if (all == 0) return 0;
  const uint64_t head = lane.marks != 0 ? lane.first().position - lane.finished : 0;
  const uint64_t run = smaller(all, smaller(head, now - smaller(ends_.progress_ns, now)));
  const uint64_t left = all - run, nearly_done = smaller(kNearlyDoneNs, room.bound);
  if (left + cost <= room.bound || left <= nearly_done) return 0;
  return left - larger(nearly_done, room.bound - smaller(room.bound, cost));
}

bool Meter::make_room(sluice_attachment* at, uint32_t thread, const Work& work) {
  const uint64_t since = sluice_clock(CLOCK_MONOTONIC);
  int looks = 0;
  bool left = true, stalled = false;
  while (lock_patiently()) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    const uint32_t context = ends_.context_of_thread(lanes_, now);
    Lane* lane = lane_for(thread, work.stream, context, now);
    const uint64_t wait = lane != nullptr ? wait_for(at, *lane, work, context, now) : 0;
    const bool patient = given_up_ns_ == 0 || given_up_ns_ != ends_.progress_ns;
    const bool long_since = now - larger(since, smaller(ends_.progress_ns, now)) > kPatienceNs;
    if (wait != 0 && patient && long_since) given_up_ns_ = ends_.progress_ns = now;
    report(at, now);
    left = room(at, now).left != 0;
    const uint64_t in_flight = left_ns(now);
    unlock();
    if (!left || wait == 0 || !patient || long_since) break;
    if (!stalled) __atomic_add_fetch(&at->usage->stalled, 1u, __ATOMIC_RELAXED);
    stalled = true;
    SLUICE_STEP("room: full");
    wait_to_look(wait, in_flight, looks);
  }
  if (stalled) __atomic_sub_fetch(&at->usage->stalled, 1u, __ATOMIC_RELAXED);
  return left;
}

// Looks what is finished, and how long until the unit fits; nothing fits once nothing is left to
// submit. Takes back what leave others have before it makes a thread wait, and sees to it that the
// lane's end will be seen.
uint64_t Meter::wait_for(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context,
                         uint64_t now) {
  const bool had_marks = lane.marks != 0;
  ends_.poll(lanes_, costs_, context, now);
  lane.allow(0);
  Room room = this->room(at, now);
  size_leave(lane, room.bound, had_marks);
  const bool known = work.bytes != 0 || costs_.guess(work.key) != 0;
  const uint64_t cost = known || context == LaneEnds::kContexts ? cost_of(work) : room.bound;
  if (room.left != 0 && too_early_ns(lane, cost, room, now) == 0) return 0;
  lanes_.for_each([](Lane& other) { other.allow(0); });
  room = this->room(at, now);
  const uint64_t wait = too_early_ns(lane, cost, room, now);
  if (room.left != 0 && wait == 0) return 0;
  ends_.watch(lanes_, costs_, lane, context, now);
  return larger(wait, 1);
}

// Waits before it sleeps at the gate, where nothing would look.
void Meter::drain(sluice_attachment* at, uint32_t thread, CUstream stream) {
  const uint64_t since = sluice_clock(CLOCK_MONOTONIC);
  bool waits = false;
  int looks = 0;
  while (lock_patiently()) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    const uint32_t context = ends_.context_of_thread(lanes_, now);
    lanes_.host_ends(thread, since);
    ends_.poll(lanes_, costs_, context, now);
    if (Lane* lane = lane_for(thread, stream, context, now))
      if (lane->unfinished_ns() != 0) ends_.watch(lanes_, costs_, *lane, context, now);
    const uint64_t left = unfinished_of(thread);
    report(at, now);
    const bool goes_on = (sluice_seq(at->permit) & 1u) == 0 && room(at, now).left != 0;
    unlock();
    SLUICE_STEP("drain: looked");
    if (left == 0 || goes_on || now - since > kPatienceNs) break;
    if (!waits) {  // and says so
      __atomic_add_fetch(&at->usage->waiting, 1u, __ATOMIC_SEQ_CST);
      sluice_bell(at);
    }
    waits = true;
    wait_to_look(left, smaller(left, left_ns(now)), looks);
  }
  if (waits) __atomic_sub_fetch(&at->usage->waiting, 1u, __ATOMIC_SEQ_CST);
}

// After a look at the lane, which had marks before it.
void Meter::size_leave(Lane& lane, uint64_t bound, bool had_marks) {
  if (lane.marks != 0 || lane.quantum_ns == 0)
    lane.quantum_ns = bound / 4;
  else if (had_marks)  // it ran dry: the thread is the slower one
    lane.quantum_ns = smaller(2 * lane.quantum_ns, bound / 2);
}

// How much a lane without leave may have: all that there is room for, or half of it where others
// have work.
uint64_t Meter::leave_for(const Lane& lane, const Room& room) const {
  const uint64_t all = lanes_.in_flight_ns();
  const uint64_t free = smaller(room.bound > all ? room.bound - all : 0, room.left);
  return smaller(lane.quantum_ns, lanes_.others_in_flight(lane) ? free / 2 : free);
}

void Meter::give_leave(sluice_attachment* at, Lane& lane, uint64_t now) {
  lane.allow(0);
  lane.allow(leave_for(lane, room(at, now)));
}

// Copies cost by the byte. What is charged for a unit that nothing is known of is corrected when
// its end is seen.
uint64_t Meter::cost_of(const Work& work) const {
  const uint64_t known = costs_.guess(work.key);
  if (work.bytes == 0) return known != 0 ? known : kUnknownNs;
  const double per_mib = static_cast<double>(known != 0 ? known : kUnknownMiB);
  return larger(kLeastNs, static_cast<uint64_t>(static_cast<double>(work.bytes) * per_mib / kMiB));
}

// Takes back its leave, too.
uint64_t Meter::unfinished_of(uint32_t thread) {
  uint64_t sum = 0;
  lanes_.for_each([&](Lane& lane) {
    if (lane.owner != thread) return;
    lane.allow(0);
    sum += lane.unfinished_ns();
  });
  return sum;
}

uint64_t Meter::submitted_by(uint32_t thread) {
  uint64_t sum = 0;
  lanes_.for_each([&](const Lane& lane) { sum += lane.owner == thread ? lane.done() : 0; });
  return sum;
}

}  // namespace sluice::hook
