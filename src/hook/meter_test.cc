// The meter in virtual time, over a device of a few lines: what it says that the device did, and
// how soon it finds that nothing is in flight any more. (On the emulated device and in real time:
// tests/cuda_meter_test.cc.)
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
CUresult driver_cuEventDestroy_v2(CUevent) {
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
  }
  ~MeterInTime() override {
    machine = nullptr;
    blocking_stream_seen = false;
  }

  static CUstream stream(uint64_t i) { return reinterpret_cast<CUstream>(0x1000 + 0x100 * i); }
  uint64_t said() const { return usage->device_busy_ns; }
  uint64_t in_flight() const { return usage->device_in_flight_ns; }

  void grant(uint64_t budget) {
    sluice_permit_grant(permit.get(), budget, SLUICE_PARKED, device.now);
    at.base_seq = permit->seq;
    at.base_ns = said();
  }
  void revoke(CUstream next) {
    sluice_permit_revoke(permit.get());
    meter->drain(&at, kThread, next);
  }
  // False: the grant is used up.
  bool launch(CUstream stream, uint64_t ns) { return launch(stream, ns, ns); }
  bool launch(CUstream stream, uint64_t ns, uint64_t key) {
    device.pass(kCallNs);
    Lane* lane = meter->lane_of(thread, stream);
    if (lane != nullptr && meter->passes(lane, key)) {
      device.launch(stream, ns);
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
    if (start == Start::kOnLeave) return true;
    meter->end(&at, work, unit, true);
    return true;
  }
  void wait_for(CUstream stream) {
    device.pass(device.end_of(stream) - device.now + kLateNs);
    meter->waited(&at, kThread, stream);
  }

  static constexpr uint32_t kThread = 7;
  uint32_t thread = kThread;  // that launches
  Machine device;
  std::unique_ptr<Meter> meter;
  std::unique_ptr<sluice_permit_page> permit;
  std::unique_ptr<sluice_usage_page> usage;
  sluice_attachment at{};
};

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

// Launches into its streams in turn, 10 ms of work at a time, and waits for them; 4 ms in every
// window of 20 ms are its own.
TEST_P(ManyStreams, WhatIsSaidOfTheDeviceIsWhatItDid) {
  const auto [streams, kernel_ns, side_by_side, legacy, contexts] = GetParam();
  device.side_by_side = side_by_side;
  blocking_stream_seen = legacy;
  uint64_t launched = 0, late = 0;
  uint64_t device_before = 0, said_before = 0;
  constexpr int kWindows = 60, kSettle = 10;
  for (int w = 0; w < kWindows; ++w) {
    if (w == kSettle) device_before = device.busy(), said_before = said();
    const uint64_t next_window = device.now + 20 * kMs;
    grant(4 * kMs);
    for (;;) {
      const CUstream next = stream(launched % streams);
      if (contexts) device.context = 1 + launched % streams;
      if (!launch(next, kernel_ns)) {
        revoke(next);
        break;
      }
      if (++launched * kernel_ns % (10 * kMs) != 0) continue;
      for (uint64_t i = 0; i < streams; ++i) wait_for(stream(i));
    }
    late = std::max(late, device.now - std::min(device.now, device.quiet_at()));
    EXPECT_LE(device.quiet_at(), device.now) << "said to be drained and is not";
    EXPECT_EQ(in_flight(), 0u);
    device.now = std::max(device.now, next_window);
  }
  const double windows = kWindows - kSettle;
  const double did = static_cast<double>(device.busy() - device_before) / windows;
  const double told = static_cast<double>(said() - said_before) / windows;
  EXPECT_GE(told, did - 20.0 * kUs);
  // Side by side it is not known what overlapped, where streams ran dry; nor is it in contexts,
  // where what has no event behind it has its time twice.
  EXPECT_LE(told, side_by_side || contexts ? 1.1 * did : did + 20.0 * kUs);
  EXPECT_LE(late, (contexts ? 500 : 300) * kUs);
}

// What is used up is said when its last kernel ends: from then on the device stands idle.
TEST_F(MeterInTime, TheEndOfAGrantIsSaidAtOnce) {
  device.late_ns = 3 * kUs;  // on a machine with nothing else to do
  for (int w = 0; w < 20; ++w) {
    grant(1 * kMs);
    while (launch(stream(0), 10 * kUs)) continue;
    revoke(stream(0));
    EXPECT_EQ(in_flight(), 0u);
    EXPECT_LE(device.now - device.quiet_at(), 8 * kUs) << "window " << w;
    device.pass(19 * kMs);
  }
}

// Kernels of 10 us every 15 us, by so many threads in turn: the device is done before the next one
// comes.
class MeterOfSlowLaunches : public MeterInTime {
 protected:
  void launch_slowly(uint64_t threads, int launches) {
    constexpr uint64_t kKernelNs = 10 * kUs, kPaceNs = 15 * kUs;
    const int settle = launches / 10;
    uint64_t device_before = 0, said_before = 0;
    int asked_before = 0;
    grant(2000 * kMs);
    for (int i = 0; i < launches; ++i) {
      if (i == settle)
        device_before = device.busy(), said_before = said(), asked_before = device.asked;
      const uint64_t next = device.now + kPaceNs;
      const uint64_t nth = static_cast<uint64_t>(i) % threads;
      thread = kThread + static_cast<uint32_t>(nth);
      ASSERT_TRUE(launch(stream(nth), kKernelNs));
      device.now = std::max(device.now, next);
      EXPECT_LE(in_flight(), kInFlightNs);
    }
    did = static_cast<double>(device.busy() - device_before);
    told = static_cast<double>(said() - said_before);
    asked = device.asked - asked_before;
  }
  // Since it had settled.
  double did = 0, told = 0;
  int asked = 0;
};

// The clock stands for most events: a look at the device for every 3 ms of work, and some to time
// kernels.
TEST_F(MeterOfSlowLaunches, AProgramIsSeldomLookedAt) {
  launch_slowly(1, 20'000);
  EXPECT_NEAR(told, did, 0.1 * did);
  EXPECT_LE(asked, did / static_cast<double>(kUnseenNs) * 2);
}

// Each has leave for a good part of what may be in flight, though all have some.
TEST_F(MeterOfSlowLaunches, NorAreFourThreads) {
  launch_slowly(4, 80'000);
  EXPECT_NEAR(told, did, 0.1 * did);
  EXPECT_LE(asked, did / static_cast<double>(kInFlightNs) * 6);
}

// A stream that waits for a function of the host's, or for another stream, stands still meanwhile,
// though there is work behind.
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

TEST_P(StreamThatWaits, DoesNothingMeanwhile) {
  const auto [kernel_ns, kernels, wait_ns] = GetParam();
  constexpr int kWaits = 500, kSettle = 50;
  grant(100'000 * kMs);
  uint64_t device_before = 0, said_before = 0;
  for (int i = 0; i < kWaits; ++i) {
    if (i == kSettle) device_before = device.busy(), said_before = said();
    for (int k = 0; k < kernels; ++k) ASSERT_TRUE(launch(stream(0), kernel_ns));
    device.hold_up(stream(0), wait_ns);
    meter->hold_up(stream(0));
    ASSERT_LE(in_flight(), 2 * std::max(kInFlightNs, kernel_ns));
  }
  const auto did = static_cast<double>(device.busy() - device_before);
  EXPECT_NEAR(static_cast<double>(said() - said_before), did, 0.02 * did);
}

// One stream's kernel behind the other's: whose end is looked at first says nothing.
TEST_F(MeterInTime, WhatAStreamWaitsForAndWhatIsBehindAreBothTheDevices) {
  constexpr uint64_t kKernelNs = 300 * kUs;
  device.side_by_side = true;
  for (const bool waiting_first : {true, false}) {
    begin_anew();
    grant(100'000 * kMs);
    const CUstream held = stream(waiting_first ? 0 : 1), other = stream(waiting_first ? 1 : 0);
    for (const uint64_t s : {0, 1}) ASSERT_TRUE(launch(stream(s), kKernelNs));
    wait_for(held);
    wait_for(other);
    const uint64_t did = device.busy(), told = said();
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(launch(other, kKernelNs));
      device.hold_up(held, device.end_of(other) - device.now);
      meter->hold_up(held);
      ASSERT_TRUE(launch(held, kKernelNs));
      wait_for(held);
      wait_for(other);
    }
    const auto really = static_cast<double>(device.busy() - did);
    EXPECT_NEAR(static_cast<double>(said() - told), really, 0.02 * really) << waiting_first;
  }
}

// Where there is a legacy stream, blocking ones wait for it, and it for them.
TEST_F(MeterInTime, AWaitInABlockingStreamMayBeEverybodys) {
  constexpr uint64_t kKernelNs = 100 * kUs, kWaitNs = 500 * kUs;
  blocking_stream_seen = true;
  grant(100'000 * kMs);
  uint64_t did = 0, told = 0;
  for (int i = 0; i < 300; ++i) {
    if (i == 100) did = device.busy(), told = said();
    ASSERT_TRUE(launch(CU_STREAM_LEGACY, kKernelNs));
    ASSERT_TRUE(launch(stream(1), kKernelNs));
    device.hold_up(stream(0), kWaitNs);
    meter->hold_up(stream(0));
  }
  const auto really = static_cast<double>(device.busy() - did);
  EXPECT_NEAR(static_cast<double>(said() - told), really, 0.1 * really);
}

// Its thread has waited for it, launches once more, and goes: soon that is over.
TEST_F(MeterInTime, AWaitThatIsOverKeepsNothingInFlight) {
  grant(100'000 * kMs);
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
  meter->waited(&at, thread, stream(1));
  EXPECT_EQ(in_flight(), 0u);
}

// What stands behind is in flight until then, and no more is let in.
TEST_F(MeterInTime, WhatWaitsInAStreamIsInFlight) {
  grant(1000 * kMs);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(launch(stream(0), 10 * kUs));
  wait_for(stream(0));
  const uint64_t over = device.now + 100 * kMs, worked = device.worked.size();
  device.hold_up(stream(0), 100 * kMs);
  meter->hold_up(stream(0));
  uint64_t waiting = 0;
  while (device.now < over) {
    waiting = device.worked.size() - worked;
    ASSERT_TRUE(launch(stream(0), 10 * kUs));
  }
  EXPECT_GT(waiting, 0u);
  EXPECT_LE(waiting * 10 * kUs, kInFlightNs);
}

// Its kernels are known, as of a library that is loaded in each context, or by an address that is
// one's again: the first of its events is not behind work that nothing says the beginning of.
TEST_F(MeterInTime, WhatAContextDoesIsChargedFromItsFirstKernelOn) {
  constexpr uint64_t kKernelNs = 100 * kUs;
  grant(1000 * kMs);
  for (unsigned long context = 1; context <= 10; ++context) {
    device.context = context;
    const uint64_t did = device.busy(), told = said();
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(context), kKernelNs));
    wait_for(stream(context));
    EXPECT_GE(said() - told + 10 * kUs, device.busy() - did) << "context " << context;
  }
}

// CUDA's runtime has ways of its own: no call that the hook sees ends it.
TEST_F(MeterInTime, OfAContextThatIsGoneUnseenNoEventIsLookedAt) {
  grant(1000 * kMs);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  ASSERT_GT(in_flight(), 0u);
  device.gone.insert(device.context);
  device.context = 2;
  for (int i = 0; i < 5000; ++i) ASSERT_TRUE(launch(stream(1), 100 * kUs));
  EXPECT_GE(said() + kInFlightNs, device.busy());
}

// The event before a unit that the driver then refused has nothing in flight behind it.
TEST_F(MeterInTime, NorIsOneOfALaunchThatFailed) {
  grant(1000 * kMs);
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
  grant(10'000 * kMs);
  const Work work{stream(0), 100 * kUs, 0};
  meter->end(&at, work, meter->begin(&at, thread, work), false);
  device.context = 2;  // whose default stream has the same handle
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
}

// Gone with work in flight that the driver waited for.
TEST_F(MeterInTime, WhatRanUntilAContextWasGoneIsCharged) {
  grant(1000 * kMs);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(launch(stream(0), 100 * kUs));
  ASSERT_GT(device.quiet_at(), device.now + 500 * kUs);
  meter->leave_alone(device.current());
  device.now = device.quiet_at();
  meter->forget_context(device.current());
  device.context = 2;
  ASSERT_TRUE(launch(stream(1), 10 * kUs));
  wait_for(stream(1));
  EXPECT_GE(said() + 20 * kUs, device.busy());
}

// Its kernels' addresses may be others' now, which take longer: soon no more than ever is in
// flight.
TEST_F(MeterInTime, WhatIsKnownOfAContextsKernelsIsDoubtedWhenItIsGone) {
  constexpr uint64_t kKey = 10 * kUs, kLongerNs = 100 * kUs;
  grant(1000 * kMs);
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

// The legacy default stream beside three that wait for it.
class LegacyStream : public MeterInTime, public testing::WithParamInterface<unsigned> {
 protected:
  LegacyStream() { blocking_stream_seen = true; }
  ~LegacyStream() override { blocking_stream_seen = false; }

  // When the kernels of a program of one thread begin.
  std::vector<uint64_t> begins(bool events_order) {
    device = Machine{.side_by_side = true, .events_order = events_order};
    begin_anew();
    grant(10'000 * kMs);
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
  grant(1000 * kMs);
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
