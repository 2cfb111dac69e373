// The meter's bound on what is in flight, and who waits for it (meter.h).
#include "hook/driver.h"
#include "hook/meter.h"
#include "hook/meter_parts.h"

SLUICE_DRIVER(cuStreamQuery);

namespace sluice::hook {
namespace {

constexpr uint64_t kUnknownMiB = 100'000;  // 10 GB/s, until a copy was timed
constexpr uint64_t kLongNapNs = 500'000;
constexpr uint64_t kSoonNs = 40'000;  // who sleeps may wake up too late
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

// What is in flight, if the device has done nothing else since the last end that is known. Too
// little where it has, so this says when to look again, and not what may be submitted.
uint64_t Meter::left_ns(uint64_t now) {
  uint64_t reached = 0;
  lanes_.for_each([&](const Lane& lane) { reached = larger(reached, lane.reached_ns); });
  const uint64_t all = lanes_.in_flight_ns();
  return all - smaller(all, now - smaller(reached, now));
}

// How long until the unit fits, as far as can be told; 0: it does. What runs counts with what is
// left of it by its expected time, but against the grant as a whole: it will be charged. Units
// longer than the bound follow one that is nearly done.
uint64_t Meter::too_early_ns(const Lane& lane, uint64_t cost, uint64_t rest, uint64_t now) const {
  const uint64_t all = lanes_.in_flight_ns();
  if (all == 0) return 0;
  const bool runs = lane.marks != 0 && !lane.first().held_up;
  const uint64_t head = runs ? lane.first().position - lane.finished : 0;
  const uint64_t run = smaller(all, smaller(head, now - smaller(progress_ns_, now)));
  const uint64_t left = all - run;
  const bool granted = all + cost <= rest || (left <= kNearlyDoneNs && all < rest);
  if (granted && (left + cost <= kInFlightNs || left <= kNearlyDoneNs)) return 0;
  const uint64_t enough = larger(kNearlyDoneNs, kInFlightNs - smaller(kInFlightNs, cost));
  return larger(granted && left > enough ? left - enough : left, 1);
}

bool Meter::make_room(sluice_attachment* at, uint32_t thread, const Work& work) {
  const uint64_t since = sluice_clock(CLOCK_MONOTONIC);
  int looks = 0;
  while (lock_patiently()) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    const uint32_t context = context_of_thread();
    Lane* lane = lane_for(thread, work.stream, context, now);
    const uint64_t wait = lane != nullptr ? wait_for(at, *lane, work, context, now) : 0;
    const bool patient = given_up_ns_ == 0 || given_up_ns_ != progress_ns_;
    const bool long_since = now - larger(since, smaller(progress_ns_, now)) > kPatienceNs;
    if (wait != 0 && patient && long_since) given_up_ns_ = progress_ns_ = now;
    report(at, now);
    const bool spent = sluice_grant_rest(at) == 0;
    const uint64_t left = left_ns(now);
    unlock();
    if (wait == 0 || !patient || long_since) return !spent;
    SLUICE_STEP("room: full");
    wait_to_look(wait, left, looks);
  }
  return true;
}

// Looks what is finished, and how long until the unit fits. Takes back what leave others have
// before it has anybody wait, and sees to it that the lane's end will be seen.
uint64_t Meter::wait_for(sluice_attachment* at, Lane& lane, const Work& work, uint32_t context,
                         uint64_t now) {
  const bool had_marks = lane.marks != 0;
  poll(context, now);
  size_leave(lane, had_marks);
  lane.allow(0);
  const uint64_t cost = cost_of(work, context);
  const uint64_t rest = sluice_grant_rest(at);
  if (too_early_ns(lane, cost, rest, now) == 0) return 0;
  lanes_.for_each([](Lane& other) { other.allow(0); });
  const uint64_t wait = too_early_ns(lane, cost, rest, now);
  if (wait == 0) return 0;
  watch(lane, context, now);
  return wait;
}

// Sees to it that the end of what the lane has submitted is seen, as one of the next looks. Its
// stream is one that a call is just being made for: others may have been destroyed.
void Meter::watch(Lane& lane, uint32_t context, uint64_t now) {
  if (takes_events(lane, context)) {
    if (lane.open_ns() != 0 || !lane.at_work()) follow(lane, several(lane.at_work()), now);
  } else if (context != kContexts && driver_cuStreamQuery(lane.stream) != CUDA_ERROR_NOT_READY) {
    learn_by_waiting(lane, now);
    settle(lane, now);
    lane.held_up = false;
  }
}

// Where nothing times a unit, how long it was waited for says at most how long it took.
void Meter::learn_by_waiting(const Lane& lane, uint64_t now) {
  if (lane.only_unit() != 0 && !lane.held_up)
    costs_.learn(lane.only_unit(), smaller(now - lane.touched_ns, kInFlightNs));
}

void Meter::drain(sluice_attachment* at, uint32_t thread, CUstream stream) {
  const uint64_t since = sluice_clock(CLOCK_MONOTONIC);
  uint64_t first = 0;
  int looks = 0;
  while (lock()) {
    const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
    const uint32_t context = context_of_thread();
    poll(context, now);
    if (Lane* lane = lane_for(thread, stream, context, now))
      if (lane->unfinished_ns() != 0) watch(*lane, context, now);
    const uint64_t left = unfinished_of(thread);
    report(at, now);
    unlock();
    SLUICE_STEP("drain: looked");
    if (first == 0) first = 2 * left + kDrySlackNs;
    const uint64_t expected = smaller(left, left_ns(now));
    if (left == 0 || now - since > first || (sluice_seq(at->permit) & 1u) == 0) return;
    wait_to_look(left, expected, looks);
  }
}

// After a look at the lane, which had marks then.
void Meter::size_leave(Lane& lane, bool had_marks) {
  if (lane.marks != 0 || lane.quantum_ns == 0)
    lane.quantum_ns = kInFlightNs / 4;
  else if (had_marks)  // it ran dry: the thread is the slower one
    lane.quantum_ns = smaller(2 * lane.quantum_ns, kInFlightNs / 2);
}

// How much a lane without leave may have: all that there is room for, or half of it where others
// have work.
uint64_t Meter::leave_for(sluice_attachment* at, const Lane& lane) {
  uint64_t all = 0, others = 0;
  lanes_.for_each([&](const Lane& each) {
    const uint64_t ns = each.in_flight_ns();
    all += ns;
    if (each.owner != lane.owner) others += ns;
  });
  const uint64_t bound = smaller(kInFlightNs, sluice_grant_rest(at));
  const uint64_t room = bound > all ? bound - all : 0;
  return smaller(lane.quantum_ns, others == 0 ? room : room / 2);
}

void Meter::give_leave(sluice_attachment* at, Lane& lane) {
  lane.allow(0);
  lane.allow(leave_for(at, lane));
}

// Copies cost by the byte. A kernel or graph that nothing is known of fills the bound, where its
// end will be seen.
uint64_t Meter::cost_of(const Work& work, uint32_t context) const {
  constexpr uint64_t kGuessNs = 100'000;
  const uint64_t known = costs_.guess(work.key);
  if (work.bytes != 0) {
    const uint64_t per_mib = known != 0 ? known : kUnknownMiB;
    return larger(kLeastNs, static_cast<uint64_t>(static_cast<double>(work.bytes) *
                                                  static_cast<double>(per_mib) / kMiB));
  }
  return known != 0 ? known : context != kContexts ? kInFlightNs : kGuessNs;
}

uint64_t Meter::unfinished_beside(const Lane& lane) {
  uint64_t sum = 0;
  lanes_.for_each([&](const Lane& other) { sum += &other != &lane ? other.unfinished_ns() : 0; });
  return sum;
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

}  // namespace sluice::hook
