// The meter in virtual time, over a device of a few lines: what it charges against what units take,
// and how soon it finds that nothing is in flight any more. (On the emulated device and in real
// time: tests/cuda_meter_test.cc.)
#include "hook/meter.h"

#include <gtest/gtest.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "hook/blocking_streams.h"
#include "hook/captures.h"

namespace sluice::hook {

unsigned open_captures;
bool blocking_stream_seen;

namespace {

constexpr uint64_t kUs = 1000, kMs = 1'000'000;
constexpr uint64_t kCallNs = 1 * kUs;   // a call of the driver's
constexpr uint64_t kLateNs = 60 * kUs;  // who sleeps wakes so much later

// The machine: time, and a device that works off each stream in order; several at once where they
// fit on it. What goes into the legacy stream waits for all others, and they for it.
struct Machine {
  uint64_t now = 3'600'000 * kMs;
  bool side_by_side = false;
  bool events_order = true;            // in the legacy stream, like work
  uint64_t free_at = 0;                // one by one: when the device is
  std::map<CUstream, uint64_t> ends;   // of what is queued
  std::map<CUevent, uint64_t> events;  // when they are reached
  uintptr_t last_event = 0;
  unsigned long context = 1;            // the current one; the streams that are given work are its
  std::set<unsigned long> gone;         // contexts
  std::map<CUevent, unsigned long> of;  // events, the context of each
  uint64_t late_ns = kLateNs;
  int asked = 0;  // which that is, as at every look at the device
  struct Stretch {
    uint64_t begin, end;
  };
  std::vector<Stretch> worked;

  CUcontext current() const { return reinterpret_cast<CUcontext>(0x10 * context); }
  void pass(uint64_t ns) { now += ns; }
  uint64_t end_of(CUstream stream) {
    const uint64_t others = stream == CU_STREAM_LEGACY ? quiet_at() : ends[CU_STREAM_LEGACY];
    return std::max({ends[stream], others, now});
  }
  void record(CUevent event, CUstream stream) {
    pass(kCallNs);
    events[event] = end_of(stream);
    if (stream != CU_STREAM_LEGACY || events_order) ends[stream] = events[event];
  }
  void launch(CUstream stream, uint64_t ns) {
    pass(kCallNs);
    const uint64_t begin = std::max(end_of(stream), side_by_side ? 0 : free_at);
    ends[stream] = free_at = begin + ns;
    worked.push_back({begin, begin + ns});
  }
  // Nothing of the stream runs meanwhile: a function of the host's, or it waits for something else.
  void hold_up(CUstream stream, uint64_t ns) {
    pass(kCallNs);
    ends[stream] = end_of(stream) + ns;
  }
  // Until now; what overlaps counts once.
  uint64_t busy() {
    std::sort(worked.begin(), worked.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    uint64_t sum = 0, until = 0;
    for (const Stretch& s : worked) {
      const uint64_t end = std::min(s.end, now);
      if (end > until) sum += end - std::max(until, s.begin);
      until = std::max(until, end);
    }
    return sum;
  }
  uint64_t quiet_at() const {
    uint64_t last = 0;
    for (const auto& [stream, end] : ends) last = std::max(last, end);
    return last;
  }
};

Machine* machine;  // null: none is being played

}  // namespace
}  // namespace sluice::hook

using sluice::hook::machine;

// ---- what the meter asks of the system and of the driver ----------------------------------------

extern "C" {

int __real_clock_gettime(clockid_t clock, timespec* time);
int __wrap_clock_gettime(clockid_t clock, timespec* time) {
  if (machine == nullptr) return __real_clock_gettime(clock, time);
  *time = {static_cast<time_t>(machine->now / 1'000'000'000),
           static_cast<long>(machine->now % 1'000'000'000)};
  return 0;
}

// The meter naps, and asks whether threads live.
long __wrap_syscall(long number, ...) {
  if (number != SYS_nanosleep) return 0;
  va_list arguments;
  va_start(arguments, number);
  const auto* time = va_arg(arguments, const timespec*);
  va_end(arguments);
  machine->pass(static_cast<uint64_t>(time->tv_nsec) + machine->late_ns);
  return 0;
}

CUresult driver_cuCtxGetCurrent(CUcontext* context) {
  ++machine->asked;
  *context = machine->current();
  return CUDA_SUCCESS;
}
CUresult driver_cuCtxGetId(CUcontext context, unsigned long long* id) {
  *id = context != nullptr ? reinterpret_cast<uintptr_t>(context) / 0x10 : machine->context;
  return machine->gone.count(*id) == 0 ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
CUresult driver_cuEventCreate(CUevent* event, unsigned) {
  *event = reinterpret_cast<CUevent>(++machine->last_event);
  machine->of[*event] = machine->context;
  return CUDA_SUCCESS;
}
CUresult driver_cuEventRecord(CUevent event, CUstream stream) {
  EXPECT_EQ(machine->of[event], machine->context);
  machine->record(event, stream);
  return CUDA_SUCCESS;
}
CUresult driver_cuEventQuery(CUevent event) {
  EXPECT_EQ(machine->gone.count(machine->of[event]), 0u) << "an event of a context that is gone";
  machine->pass(sluice::hook::kCallNs);
  return machine->events[event] <= machine->now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult driver_cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  const auto ns = static_cast<int64_t>(machine->events[to] - machine->events[from]);
  *ms = static_cast<float>(static_cast<double>(ns) / 1e6);
  return CUDA_SUCCESS;
}
CUresult driver_cuStreamQuery(CUstream stream) {
  return machine->ends[stream] <= machine->now ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

}  // extern "C"

namespace sluice::hook {
namespace {

// A program's thread under permits: the hook's launches and the gate, in the order in which they
// come.
class MeterInTime : public testing::Test {
 protected:
  MeterInTime() {
    machine = &device;
    begin_anew();
  }
  void begin_anew() {
    meter.reset(new Meter());
    permit.reset(new sluice_permit_page());
    usage.reset(new sluice_usage_page());
    at = {};
    at.permit = permit.get();
    at.usage = usage.get();
    at.metered = 1;
    launched = 0;
  }
  ~MeterInTime() override {
    machine = nullptr;
    blocking_stream_seen = false;
  }

  static CUstream stream(uint64_t i) { return reinterpret_cast<CUstream>(0x1000 + 0x100 * i); }
  uint64_t submitted() const { return usage->submitted_ns; }
  uint64_t in_flight() const { return usage->submitted_ns - usage->finished_ns; }
  uint64_t host() const { return usage->host_ns; }

  // Of `more` than what is submitted.
  void allow(uint64_t more, uint64_t in_flight = kInFlightNs) {
    permit->heartbeat_ns = device.now;
    sluice_permit_allow(permit.get(), submitted() + more, in_flight, SLUICE_PARKED, device.now);
  }
  void others_have_work(bool have) {
    permit->flags = have ? SLUICE_BESIDE : 0;
    others = have;
    if (!have) alone_since = device.now;
  }
  // The daemon's tick.
  void tick() {
    permit->heartbeat_ns = device.now;
    const sluice_time_alone alone{others ? UINT64_MAX : alone_since, device.now};
    sluice_say_alone(permit.get(), &alone);
  }
  void revoke(CUstream next) {
    sluice_permit_revoke(permit.get());
    meter->drain(&at, thread, next);
  }
  // False: nothing is left to submit.
  bool launch(CUstream stream, uint64_t ns) { return launch(stream, ns, ns); }
  bool launch(CUstream stream, uint64_t ns, uint64_t key) {
    device.pass(kCallNs);
    tick();
    Lane* lane = meter->lane_of(thread, stream);
    if (lane != nullptr && meter->passes(lane, key)) {
      device.launch(stream, ns);
      launched += ns;
      return true;
    }
    const Work work{stream, key, 0};
    Unit unit{};
    const Start start = meter->start(&at, thread, work, &unit);
    if (start == Start::kLater) {
      if (!meter->make_room(&at, thread, work)) return false;
      unit = meter->begin(&at, thread, work);
    }
    device.launch(stream, ns);
    launched += ns;
    if (start == Start::kOnLeave) return true;
    meter->end(&at, work, unit, true);
    return true;
  }
  void wait_for(CUstream stream) {
    const uint64_t begun = device.now;
    device.pass(device.end_of(stream) - device.now + kLateNs);
    tick();
    meter->waited(&at, thread, stream, begun);
  }
  // Launches a unit of each so often that what it takes is known.
  void learn(std::initializer_list<uint64_t> units) {
    allow(1000 * kMs);
    for (int i = 0; i < 20; ++i)
      for (const uint64_t ns : units) {
        ASSERT_TRUE(launch(stream(0), ns));
        wait_for(stream(0));
      }
  }

  static constexpr uint32_t kThread = 7;
  uint32_t thread = kThread;  // that launches
  uint64_t launched = 0;      // in ns of work
  bool others = false;        // have work, as the daemon sees it
  uint64_t alone_since = 0;
  Machine device;
  std::unique_ptr<Meter> meter;
  std::unique_ptr<sluice_permit_page> permit;
  std::unique_ptr<sluice_usage_page> usage;
  sluice_attachment at{};
};

// ---- what is charged ----------------------------------------------------------------------------

struct Streams {
  uint64_t streams;
  uint64_t kernel_ns;
  bool side_by_side = false;
  bool legacy = false;    // one of them; the others wait for it
  bool contexts = false;  // each in one of its own
};
std::ostream& operator<<(std::ostream& out, const Streams& s) {
  return out << s.streams << " streams, kernels of " << s.kernel_ns << " ns"
             << (s.side_by_side ? ", side by side" : "") << (s.legacy ? ", one legacy" : "")
             << (s.contexts ? ", each in a context of its own" : "");
}

class ManyStreams : public MeterInTime, public testing::WithParamInterface<Streams> {
 protected:
  static CUstream stream(uint64_t i) {
    return GetParam().legacy && i == 0 ? CU_STREAM_LEGACY : MeterInTime::stream(i);
  }
};
INSTANTIATE_TEST_SUITE_P(
    , ManyStreams,
    testing::Values(Streams{1, 10 * kUs}, Streams{4, 10 * kUs}, Streams{4, 50 * kUs},
                    Streams{16, 10 * kUs}, Streams{4, 50 * kUs, true}, Streams{4, 10 * kUs, true},
                    Streams{1, 10 * kUs, false, true}, Streams{1, 200 * kUs, false, true},
                    Streams{1, 1000 * kUs, false, true}, Streams{4, 50 * kUs, false, true},
                    Streams{4, 10 * kUs, false, false, true},
                    Streams{4, 100 * kUs, false, false, true},
                    Streams{4, 1000 * kUs, false, false, true}));

// Launches into its streams in turn, and waits for them every 10 ms of work; may submit 4 ms in
// every window of 20 ms. Whether units overlap or not, it is charged what each takes alone.
TEST_P(ManyStreams, AreChargedWhatTheirUnitsTakeAlone) {
  const auto [streams, kernel_ns, side_by_side, legacy, contexts] = GetParam();
  device.side_by_side = side_by_side;
  blocking_stream_seen = legacy;
  uint64_t number = 0, late = 0;
  uint64_t launched_before = 0, submitted_before = 0;
  constexpr int kWindows = 60, kSettle = 10;
  for (int w = 0; w < kWindows; ++w) {
    if (w == kSettle) launched_before = launched, submitted_before = submitted();
    const uint64_t next_window = device.now + 20 * kMs;
    allow(4 * kMs);
    for (;;) {
      const CUstream next = stream(number % streams);
      if (contexts) device.context = 1 + number % streams;
      if (!launch(next, kernel_ns)) {
        revoke(next);
        break;
      }
      if (++number * kernel_ns % (10 * kMs) != 0) continue;
      for (uint64_t i = 0; i < streams; ++i) wait_for(stream(i));
    }
    late = std::max(late, device.now - std::min(device.now, device.quiet_at()));
    EXPECT_LE(device.quiet_at(), device.now) << "said to be drained and is not";
    EXPECT_EQ(in_flight(), 0u);
    device.now = std::max(device.now, next_window);
  }
  const auto did = static_cast<double>(launched - launched_before);
  EXPECT_NEAR(static_cast<double>(submitted() - submitted_before), did, 0.02 * did);
  EXPECT_NEAR(did, 4e6 * (kWindows - kSettle), 4e6 + static_cast<double>(kernel_ns) * kWindows);
  // In contexts, what has no event behind it has its time twice.
  EXPECT_LE(late, (contexts ? 2000 : 300) * kUs);
}

TEST_F(MeterInTime, AUnitThatNothingIsKnownOfRunsAloneAndIsChargedWhatItTook) {
  allow(1000 * kMs);
  ASSERT_TRUE(launch(stream(0), 3 * kMs));
  const uint64_t end = device.quiet_at();
  ASSERT_TRUE(launch(stream(0), 10 * kUs));
  EXPECT_GE(device.now + kNearlyDoneNs, end);
  wait_for(stream(0));
  EXPECT_NEAR(static_cast<double>(submitted()), 3010e3, 30e3);
}

TEST_F(MeterInTime, NeighboursDoNotMakeUnitsDearer) {
  learn({10 * kUs});
  others_have_work(true);
  const uint64_t before = submitted();
  allow(1000 * kMs);
  launched = 0;
  for (int i = 0; i < 5000; ++i) {  // each takes three times as long beside them
    device.launch(stream(9), 20 * kUs);
    ASSERT_TRUE(launch(stream(0), 10 * kUs));
  }
  wait_for(stream(0));
  EXPECT_NEAR(static_cast<double>(submitted() - before), static_cast<double>(launched),
              0.02 * static_cast<double>(launched));
}

TEST_F(MeterInTime, WhatWasLearntBesideOthersIsLearntAnewWithoutThem) {
  allow(1000 * kMs);
  others_have_work(true);
  for (int i = 0; i < 100; ++i) {
    device.launch(stream(9), 20 * kUs);
    ASSERT_TRUE(launch(stream(0), 10 * kUs));
    wait_for(stream(0));
  }
  others_have_work(false);
  learn({10 * kUs});
  const uint64_t before = submitted();
  ASSERT_TRUE(launch(stream(0), 10 * kUs));
  wait_for(stream(0));
  EXPECT_NEAR(static_cast<double>(submitted() - before), 10e3, 500);
}

TEST_F(MeterInTime, ALaunchThatTheDriverRefusesCostsNothing) {
  learn({100 * kUs});
  const uint64_t before = submitted();
  const Work work{stream(0), 100 * kUs, 0};
  for (int i = 0; i < 50; ++i) meter->end(&at, work, meter->begin(&at, thread, work), false);
  EXPECT_EQ(submitted(), before);
  EXPECT_EQ(in_flight(), 0u);
}

// A copy costs by the byte, in either direction of error.
TEST_F(MeterInTime, ACopyIsChargedByItsBytes) {
  constexpr uint64_t kMiBNs = 80 * kUs;
  allow(1000 * kMs);
  const auto copy = [&](uint64_t mib) {
    const Work work{stream(0), copy_key(CopyKind::kToDevice), mib << 20};
    const Unit unit = meter->begin(&at, thread, work);
    device.launch(work.stream, mib * kMiBNs);
    meter->end(&at, work, unit, true);
    wait_for(stream(0));
  };
  for (int i = 0; i < 10; ++i) copy(1);
  for (const uint64_t mib : {1u, 8u, 64u}) {
    const uint64_t before = submitted();
    copy(mib);
    EXPECT_NEAR(static_cast<double>(submitted() - before), static_cast<double>(mib * kMiBNs),
                0.05 * static_cast<double>(mib * kMiBNs))
        << mib << " MiB";
  }
}

// ---- the end of what may be submitted -------------------------------------------------------

// The last unit may take the client beyond it.
TEST_F(MeterInTime, NoMoreIsSubmittedThanIsAllowedAndOneUnit) {
  learn({10 * kUs});
  for (const uint64_t more : {50 * kUs, 1 * kMs, 20 * kMs}) {
    allow(more);
    const uint64_t before = submitted();
    while (launch(stream(0), 10 * kUs)) continue;
    EXPECT_GE(submitted() - before, more);
    EXPECT_LE(submitted() - before, more + 10 * kUs);
  }
}

// A renewal is of a total: what was submitted before it came is not given again.
TEST_F(MeterInTime, RenewalsAddNothing) {
  learn({10 * kUs});
  const uint64_t before = submitted(), total = before + 5 * kMs;
  uint64_t renewals = 0;
  do {
    sluice_permit_allow(permit.get(), total, kInFlightNs, SLUICE_PARKED, device.now);
    for (int i = 0; i < 7; ++i) launch(stream(0), 10 * kUs);
  } while (++renewals < 200);
  EXPECT_GE(submitted() - before, 5 * kMs);
  EXPECT_LE(submitted() - before, 5 * kMs + 10 * kUs);
}

// What is used up is said when its last kernel ends: from then on the device stands idle.
TEST_F(MeterInTime, TheEndOfAGrantIsSaidAtOnce) {
  device.late_ns = 3 * kUs;  // on a machine with nothing else to do
  for (int w = 0; w < 20; ++w) {
    allow(1 * kMs);
    while (launch(stream(0), 10 * kUs)) continue;
    revoke(stream(0));
    EXPECT_EQ(in_flight(), 0u);
    EXPECT_LE(device.now - device.quiet_at(), 10 * kUs) << "window " << w;
    device.pass(19 * kMs);
  }
}

// ---- in flight ----------------------------------------------------------------------------------

struct Bound {
  uint64_t kernel_ns, in_flight_ns;
};
std::ostream& operator<<(std::ostream& out, const Bound& b) {
  return out << b.in_flight_ns << " ns of kernels of " << b.kernel_ns;
}
class InFlight : public MeterInTime, public testing::WithParamInterface<Bound> {};
INSTANTIATE_TEST_SUITE_P(, InFlight,
                         testing::Values(Bound{10 * kUs, 750 * kUs}, Bound{10 * kUs, 200 * kUs},
                                         Bound{100 * kUs, 750 * kUs}, Bound{100 * kUs, 3 * kMs},
                                         Bound{2 * kMs, 750 * kUs}, Bound{20 * kMs, 200 * kUs}));

// As much as the page says; or one unit, and another when it is nearly done.
TEST_P(InFlight, IsBoundedAndKeepsTheDeviceAtWork) {
  const auto [kernel_ns, bound_ns] = GetParam();
  learn({kernel_ns});
  others_have_work(true);
  allow(1'000'000 * kMs, bound_ns);
  const uint64_t begun = device.now, before = device.busy();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(launch(stream(0), kernel_ns));
    const uint64_t most = std::max(bound_ns + kernel_ns / 8, kernel_ns + kNearlyDoneNs);
    ASSERT_LE(device.quiet_at() - std::min(device.quiet_at(), device.now), most + 20 * kUs) << i;
  }
  const auto passed = static_cast<double>(device.now - begun);
  EXPECT_GE(static_cast<double>(device.busy() - before), 0.9 * passed);
}

TEST_F(MeterInTime, NearTheEndOfTheBudgetLessIsInFlight) {
  learn({10 * kUs});
  others_have_work(true);
  allow(10 * kMs);
  while (launch(stream(0), 10 * kUs)) {
    const uint64_t left = permit->allowed_ns - std::min(permit->allowed_ns, submitted());
    if (left >= 100 * kUs) continue;
    EXPECT_LE(device.quiet_at() - device.now, kLeastInFlightNs + 100 * kUs + 20 * kUs);
  }
}

// Kernels of 10 us every 15 us, by so many threads in turn: the device is done before the next one
// comes.
class MeterOfSlowLaunches : public MeterInTime {
 protected:
  void launch_slowly(uint64_t threads, int launches) {
    constexpr uint64_t kKernelNs = 10 * kUs, kPaceNs = 15 * kUs;
    const int settle = launches / 10;
    uint64_t launched_before = 0, submitted_before = 0, host_before = 0;
    int asked_before = 0;
    allow(2000 * kMs);
    uint64_t begun = 0;
    for (int i = 0; i < launches; ++i) {
      if (i == settle) {
        launched_before = launched, submitted_before = submitted(), host_before = host();
        asked_before = device.asked;
        begun = device.now;
      }
      const uint64_t next = device.now + kPaceNs;
      const uint64_t nth = static_cast<uint64_t>(i) % threads;
      thread = kThread + static_cast<uint32_t>(nth);
      ASSERT_TRUE(launch(stream(nth), kKernelNs));
      device.now = std::max(device.now, next);
      EXPECT_LE(in_flight(), kInFlightNs);
    }
    did = static_cast<double>(launched - launched_before);
    charged = static_cast<double>(submitted() - submitted_before);
    asked = device.asked - asked_before;
    own = static_cast<double>(host() - host_before);
    passed = static_cast<double>(device.now - begun);
  }
  // Since it had settled.
  double did = 0, charged = 0, own = 0, passed = 0;
  int asked = 0;
};

// The clock stands for most events: a look at the device for every 3 ms of work, and some to time
// kernels.
TEST_F(MeterOfSlowLaunches, AProgramIsSeldomLookedAt) {
  launch_slowly(1, 20'000);
  EXPECT_NEAR(charged, did, 0.05 * did);
  EXPECT_LE(asked, did / static_cast<double>(LaneEnds::kUnseenNs) * 3);
}

// Each has leave for a good part of what may be in flight, though all have some.
TEST_F(MeterOfSlowLaunches, NorAreFourThreads) {
  launch_slowly(4, 80'000);
  EXPECT_NEAR(charged, did, 0.05 * did);
  EXPECT_LE(asked, did / static_cast<double>(kInFlightNs) * 8);
}

// Where others have work, an end is seen for each part of what may be in flight.
TEST_F(MeterOfSlowLaunches, BesideOthersItIsLookedAtMoreOften) {
  others_have_work(true);
  launch_slowly(1, 20'000);
  EXPECT_NEAR(charged, did, 0.05 * did);
  EXPECT_GE(asked, did / static_cast<double>(kInFlightNs));
  EXPECT_LE(asked, did / static_cast<double>(kInFlightNs) * 8);
}

// ---- the program's own time ------------------------------------------------------------------

TEST_F(MeterOfSlowLaunches, TheTimeBetweenLaunchesIsTheProgramsOwn) {
  launch_slowly(1, 20'000);
  EXPECT_NEAR(own, passed, 0.05 * passed);
}
TEST_F(MeterOfSlowLaunches, OfSeveralThreadsItCountsOnce) {
  launch_slowly(4, 80'000);
  EXPECT_NEAR(own, passed, 0.05 * passed);
}
TEST_F(MeterInTime, WaitsAreNot) {
  learn({100 * kUs});
  allow(1000 * kMs);
  const uint64_t before = host();
  for (int i = 0; i < 100; ++i) {
    for (int k = 0; k < 5; ++k) ASSERT_TRUE(launch(stream(0), 100 * kUs));
    wait_for(stream(0));
    device.pass(3 * kMs);  // for the next request
  }
  EXPECT_LE(host() - before, 100 * 50 * kUs);
}
// Nor is the time in which a thread waits since as much is in flight as may be.
TEST_F(MeterInTime, NorIsAFullDevice) {
  learn({100 * kUs});
  allow(100'000 * kMs);
  const uint64_t before = host(), charged = submitted();
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  EXPECT_LE(4 * (host() - before), submitted() - charged);
}

// ---- streams that wait for something else ----------------------------------------------------

struct HeldUp {
  uint64_t kernel_ns;
  int kernels;  // between two waits
  uint64_t wait_ns;
};
std::ostream& operator<<(std::ostream& out, const HeldUp& h) {
  return out << h.kernels << " kernels of " << h.kernel_ns << " ns, then " << h.wait_ns;
}
class StreamThatWaits : public MeterInTime, public testing::WithParamInterface<HeldUp> {};
INSTANTIATE_TEST_SUITE_P(
    , StreamThatWaits,
    testing::Values(HeldUp{10 * kUs, 1, 100 * kUs}, HeldUp{100 * kUs, 1, 300 * kUs},
                    HeldUp{10 * kUs, 20, 100 * kUs}, HeldUp{100 * kUs, 3, 50 * kUs},
                    HeldUp{100 * kUs, 3, 50 * kMs}, HeldUp{2000 * kUs, 1, 500 * kUs}));

// A stream that waits for a function of the host's, or for another stream, stands still meanwhile,
// though there is work behind. Its units cost what they take, and are not in flight for long: the
// device does not work for it.
TEST_P(StreamThatWaits, IsNeitherChargedForThatNorInFlight) {
  const auto [kernel_ns, kernels, wait_ns] = GetParam();
  learn({kernel_ns});
  launched = 0;
  constexpr int kWaits = 300;
  allow(100'000 * kMs);
  const uint64_t before = submitted();
  for (int i = 0; i < kWaits; ++i) {
    for (int k = 0; k < kernels; ++k) ASSERT_TRUE(launch(stream(0), kernel_ns));
    device.hold_up(stream(0), wait_ns);
    meter->hold_up(stream(0));
    ASSERT_LE(in_flight(), 2 * std::max(kInFlightNs, kernel_ns));
  }
  const auto did = static_cast<double>(launched);  // what it has leave for is reported later
  EXPECT_NEAR(static_cast<double>(submitted() - before), did, 0.02 * did + 0.1 * kMs);
}

TEST_F(MeterInTime, WhatStandsBehindAWaitIsInFlightForAsLongAsItTakes) {
  learn({100 * kUs});
  others_have_work(true);
  allow(1000 * kMs);
  device.hold_up(stream(0), 50 * kMs);
  meter->hold_up(stream(0));
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  EXPECT_GT(in_flight(), 0u);
  device.pass(2 * kMs);
  meter->looked(&at, thread, device.now);
  EXPECT_EQ(in_flight(), 0u) << "the device does nothing for it";
  EXPECT_GT(device.quiet_at(), device.now);
}

// Its thread has waited for it, launches once more, and goes: soon that is over.
TEST_F(MeterInTime, AWaitThatIsOverKeepsNothingInFlight) {
  allow(100'000 * kMs);
  for (const uint64_t s : {0, 1, 0, 1, 0, 1})
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(launch(stream(s), 10 * kUs));
  device.hold_up(stream(0), 500 * kUs);
  meter->hold_up(stream(0));
  wait_for(stream(0));
  ASSERT_TRUE(launch(stream(0), 10 * kUs));
  wait_for(stream(1));
  device.pass(20 * kMs);
  thread = kThread + 1;
  ASSERT_TRUE(launch(stream(1), 10 * kUs));
  meter->waited(&at, thread, stream(1), device.now);
  EXPECT_EQ(in_flight(), 0u);
}

// ---- iterations ------------------------------------------------------------------------------

TEST_F(MeterInTime, AnOpenIterationIsReportedWithWhatWasSubmittedBefore) {
  learn({100 * kUs});
  permit->slo_ns = 10 * kMs;
  const uint64_t begun = device.now, before = submitted();
  const Stretch stretch = meter->begin_stretch(&at, thread);
  EXPECT_EQ(usage->begun_ns, begun);
  EXPECT_EQ(usage->begun_submitted_ns, before);
  for (int k = 0; k < 5; ++k) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  wait_for(stream(0));
  const uint64_t cycle = device.now - begun;
  meter->end_stretch(&at, thread, stretch);
  EXPECT_EQ(usage->begun_ns, 0u);
  EXPECT_EQ(usage->iterations, 1u);
  EXPECT_EQ(usage->cycle_ns, cycle);
}

TEST_F(MeterInTime, AMarkedIterationIsReportedWithItsStatedKind) {
  learn({100 * kUs});
  const uint64_t begun = device.now;
  for (int k = 0; k < 2; ++k) {
    ASSERT_TRUE(launch(stream(0), 100 * kUs));
    wait_for(stream(0));
  }
  const uint64_t cycle = device.now - begun;
  meter->end_marked(&at, begun, 7);
  EXPECT_EQ(usage->iterations, 1u);
  EXPECT_EQ(usage->cycle_ns, cycle);
  EXPECT_EQ(usage->kind, 7u);
  EXPECT_EQ(usage->begun_ns, 0u);
}

// ---- contexts -----------------------------------------------------------------------------------

// Its kernels are known, as of a library that is loaded in each context, or by an address that is
// one's again.
TEST_F(MeterInTime, WhatAContextDoesIsChargedFromItsFirstKernelOn) {
  constexpr uint64_t kKernelNs = 100 * kUs;
  allow(1000 * kMs);
  for (unsigned long context = 1; context <= 10; ++context) {
    device.context = context;
    const uint64_t before = submitted();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(context), kKernelNs));
    wait_for(stream(context));
    EXPECT_NEAR(static_cast<double>(submitted() - before), 20e5, 0.1 * 20e5)
        << "context " << context;
  }
}

// CUDA's runtime has ways of its own: no call that the hook sees ends it.
TEST_F(MeterInTime, OfAContextThatIsGoneUnseenNoEventIsLookedAt) {
  allow(1000 * kMs);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  ASSERT_GT(in_flight(), 0u);
  device.gone.insert(device.context);
  device.context = 2;
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(launch(stream(1), 100 * kUs));
  EXPECT_LE(in_flight(), kInFlightNs);
}

// The event before a unit that the driver then refused has nothing in flight behind it.
TEST_F(MeterInTime, NorIsOneOfALaunchThatFailed) {
  allow(1000 * kMs);
  const Work work{stream(0), 100 * kUs, 0};
  meter->end(&at, work, meter->begin(&at, thread, work), false);
  ASSERT_FALSE(device.events.empty());
  meter->leave_alone(device.current());
  device.gone.insert(device.context);
  meter->forget_context(device.current());
  device.context = 2;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(1), 100 * kUs));
}

TEST_F(MeterInTime, NorIsItRecordedInAnotherContext) {
  allow(10'000 * kMs);
  const Work work{stream(0), 100 * kUs, 0};
  meter->end(&at, work, meter->begin(&at, thread, work), false);
  device.context = 2;  // whose default stream has the same handle
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
}

// Gone with work in flight that the driver waited for.
TEST_F(MeterInTime, WhatRanUntilAContextWasGoneIsOver) {
  allow(1000 * kMs);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  ASSERT_GT(device.quiet_at(), device.now + 500 * kUs);
  meter->leave_alone(device.current());
  device.now = device.quiet_at();
  meter->forget_context(device.current());
  device.context = 2;
  ASSERT_TRUE(launch(stream(1), 10 * kUs));
  wait_for(stream(1));
  EXPECT_EQ(in_flight(), 0u);
}

// Its kernels' addresses may be others' now, which take longer: soon no more than ever is in
// flight.
TEST_F(MeterInTime, WhatIsKnownOfAContextsKernelsIsDoubtedWhenItIsGone) {
  constexpr uint64_t kKey = 10 * kUs, kLongerNs = 100 * kUs;
  allow(1000 * kMs);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(launch(stream(0), kKey));
  wait_for(stream(0));
  meter->leave_alone(device.current());
  meter->forget_context(device.current());
  device.context = 2;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(launch(stream(1), kLongerNs, kKey));
    if (i < 100) continue;
    EXPECT_LE(device.quiet_at() - device.now, kInFlightNs + kLongerNs) << i;
  }
}

// ---- the legacy default stream ------------------------------------------------------------------

// Beside three that wait for it.
class LegacyStream : public MeterInTime, public testing::WithParamInterface<unsigned> {
 protected:
  LegacyStream() { blocking_stream_seen = true; }
  ~LegacyStream() override { blocking_stream_seen = false; }

  // When the kernels of a program of one thread begin.
  std::vector<uint64_t> begins(bool events_order) {
    device = Machine{.side_by_side = true, .events_order = events_order};
    begin_anew();
    allow(10'000 * kMs);
    std::mt19937 random(GetParam());
    for (int i = 0; i < 3000; ++i) {
      const CUstream next = random() % 4 == 0 ? CU_STREAM_LEGACY : stream(random() % 3);
      EXPECT_TRUE(launch(next, (1 + random() % 30) * 10 * kUs));
      if (random() % 16 == 0) wait_for(next);
    }
    std::vector<uint64_t> begins;
    for (const Machine::Stretch& s : device.worked) begins.push_back(s.begin);
    return begins;
  }
};
INSTANTIATE_TEST_SUITE_P(, LegacyStream, testing::Range(1u, 6u));

TEST_P(LegacyStream, NothingWaitsForAnEventOfOursThere) {
  EXPECT_EQ(begins(true), begins(false));
}

// The one right behind a unit would stand behind what another thread submitted in between.
TEST_P(LegacyStream, NorWhereAnotherThreadLaunches) {
  device.side_by_side = true;
  allow(1000 * kMs);
  const Work work{CU_STREAM_LEGACY, 100 * kUs, 0}, others{stream(1), 500 * kUs, 0};
  const Unit unit = meter->begin(&at, thread, work);
  device.launch(work.stream, work.key);
  const uint64_t end = device.worked.back().end;
  const Unit of_other = meter->begin(&at, kThread + 1, others);
  device.launch(others.stream, others.key);
  meter->end(&at, work, unit, true);
  meter->end(&at, others, of_other, true);
  device.launch(stream(2), 10 * kUs);
  EXPECT_EQ(device.worked.back().begin, end);
}

}  // namespace
}  // namespace sluice::hook
