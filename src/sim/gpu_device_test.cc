// Programs on a simulated GPU: eager ones, whose hosts leave most of the device to others, and
// device-bound ones; under arbiters that share it, and under arbiters whose permits exclude each
// other.
#include "sim/gpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>

namespace sluice::sim {
namespace {

using policy::ClientId;
using policy::ShareClient;
using testing::ElementsAre;

constexpr Time kStart = Time(Seconds(3600));
constexpr Share kEager{800};  // the host's part of eager inference

Physics gpu(Nanos grain = Millis(1)) {
  return {.grain = grain, .gpu = GpuPhysics()};
}

// A client of all SMs.
ShareClient client(ClientId id, int request, int from = 0) {
  return {.id = id, .sm = kWhole, .quota = {{request}, kWhole}, .position = {{}, {from}}};
}

// What each client begins: a batch every `every`, or as soon as the last one has ended.
struct Program {
  Nanos work;  // of a batch alone
  Share host = kNone;
  Nanos every{0};  // 0: it always has work
};

// A GPU whose clients' batches come and go, and what became of them.
class Bed {
 public:
  explicit Bed(std::string_view arbiter, const Physics& physics = gpu()) : device(physics) {
    EXPECT_TRUE(device.run(arbiter).ok());
  }
  void add(ShareClient share, const Program& program) {
    share.has_slo = program.every > Nanos(0);
    EXPECT_TRUE(device.admit(share, now).ok());
    device.set_host(share.id, program.host);
    clients[share.id] = {program, {}, now, {}};
  }
  void run(Nanos until) {
    for (const Time end = kStart + until; now < end;) {
      Time next = std::min(device.next(), end);
      for (auto& [id, c] : clients)
        if (c.program.every > Nanos(0)) next = std::min(next, c.next);
      now = std::max(now, next);
      for (auto& [id, c] : clients) arrive(id, c);
      for (const ClientId id : device.step(now)) end_batch(clients.at(id));
      for (auto& [id, c] : clients) begin(id, c);
    }
  }
  void remove(ClientId id) {
    device.remove(id, now);
    clients.erase(id);
  }
  double used(ClientId id) const { return seconds(device.used(id, now)); }
  // Milliseconds from the batch's arrival to its end, on average.
  double latency(ClientId id) const {
    const std::vector<Nanos>& all = clients.at(id).latencies;
    return millis(std::accumulate(all.begin(), all.end(), Nanos(0))) /
           static_cast<double>(all.size());
  }
  const std::vector<Nanos>& latencies(ClientId id) const { return clients.at(id).latencies; }

  GpuDevice device;
  Time now = kStart;

 private:
  struct Client {
    Program program;
    std::deque<Time> waiting;  // batches that have arrived; the first one may run
    Time next{};
    std::vector<Nanos> latencies;
    bool running = false;
  };
  void arrive(ClientId id, Client& c) {
    const bool always = c.program.every == Nanos(0);
    if (always ? c.waiting.empty() : c.next <= now) {
      c.waiting.push_back(now);
      c.next += c.program.every;
    }
    begin(id, c);
  }
  // A client that always has work begins its next batch at the moment at which the last one ends.
  void begin(ClientId id, Client& c) {
    if (c.running || c.waiting.empty()) return;
    c.running = true;
    device.begin(id, c.program.work, 1, Time::max(), now);
  }
  void end_batch(Client& c) {
    c.latencies.push_back(now - c.waiting.front());
    c.waiting.pop_front();
    c.running = false;
    if (c.program.every == Nanos(0)) c.waiting.push_back(now);
  }

  std::map<ClientId, Client> clients;
};

TEST(GpuDevice, ABatchAloneTakesItsWorkUnderEveryArbiter) {
  for (const std::string& arbiter : policy::arbiter_names(DeviceKind::kCuda))
    for (const int host : {0, 250, 800}) {
      Bed bed(arbiter);
      bed.add(client(1, 1000), {Micros(10'500), {host}, Millis(100)});
      bed.run(Millis(90));
      EXPECT_THAT(bed.latencies(1), ElementsAre(Micros(10'500))) << arbiter << " " << host;
      EXPECT_EQ(bed.device.used(1, bed.now), Micros(10'500) * (1000 - host) / 1000) << arbiter;
    }
}

// An operator of 0.2 ms each millisecond, beside a neighbour that fills slices of 2 ms.
TEST(GpuDevice, AHostLaunchesAheadWhileOthersHaveTheDevice) {
  Bed bed("share_fixed_limit");  // both may launch at any time
  bed.add(client(1, 500), {Millis(5), kEager, Seconds(1)});
  bed.add(client(2, 500, 500), {Millis(4), kNone, Seconds(1)});
  bed.run(Millis(20));
  // The second runs from 0 to 2 ms, and from 2.66 ms on: the first has launched two operators by
  // 2.08 ms, when the device has switched to it, keeps the device for 0.1 ms when these have run,
  // and launches the others at 2.8, 3.8 and 4.8 ms. It has the device again from 4.74 ms on.
  EXPECT_THAT(bed.latencies(2), ElementsAre(Micros(4660)));
  EXPECT_THAT(bed.latencies(1), ElementsAre(Micros(5340)));
}

TEST(GpuDevice, AProgramReportsWhatItLaunchesAndWhatItWaitsFor) {
  Bed bed("share_fixed_limit");
  bed.add(client(1, 500), {Millis(3), kEager, Seconds(1)});
  bed.run(Micros(500));
  EXPECT_EQ(bed.device.progress(1).begun, kStart);
  EXPECT_EQ(bed.device.progress(1).kind, 1u);
  EXPECT_EQ(bed.device.progress(1).submitted, Nanos(0)) << "the host prepares the first operator";
  // Operators are launched at 0.8, 1.8 and 2.8 ms; the device runs each for 0.2 ms.
  bed.run(Micros(2900));
  const policy::Progress& p = bed.device.progress(1);
  EXPECT_EQ(p.submitted, Micros(600));
  EXPECT_EQ(p.finished, Micros(400));
  EXPECT_EQ(p.host, Micros(2800));
  EXPECT_EQ(p.longest, Micros(200));
  EXPECT_TRUE(p.waits_for_end);
  EXPECT_FALSE(p.waits_for_device || p.waits_for_budget);
  bed.run(Micros(3100));
  EXPECT_EQ(p.begun, Time::max());
  EXPECT_EQ(p.finished, p.submitted);
  EXPECT_FALSE(p.waits_for_end);

  // A device-bound one launches an operator while none is in flight, as it is longer than what may
  // be. Half of a window's 20 ms is its limit.
  ShareClient other = client(2, 500, 500);
  other.quota.limit = {500};
  bed.add(other, {Millis(30), kNone, Seconds(2)});
  bed.run(Micros(4600));
  EXPECT_EQ(bed.device.progress(2).submitted, Millis(2));
  EXPECT_EQ(bed.device.progress(2).finished, Millis(1));
  EXPECT_TRUE(bed.device.progress(2).waits_for_device);
  bed.run(Millis(18));
  EXPECT_EQ(bed.device.progress(2).finished, Millis(10));
  EXPECT_TRUE(bed.device.progress(2).waits_for_budget);
  EXPECT_EQ(bed.device.progress(2).submitted_before, Nanos(0));
}

// Eager inference of 10 ms at 40 % load, which keeps the device busy for a twelfth of the time, and
// a device-bound program. The grain is that of PyTorch's launches on an H200.
struct Pair {
  double latency;  // of inference ÷ alone
  double other;    // what the other uses ÷ alone
};
Pair inference_beside_device_bound(std::string_view arbiter) {
  Bed bed(arbiter, gpu(Micros(25)));
  bed.add(client(1, 400), {Millis(10), kEager, Millis(25)});
  bed.add(client(2, 600, 400), {Millis(20)});
  bed.run(Seconds(5));
  return {bed.latency(1) / 10, bed.used(2) / 5};
}

TEST(GpuDevice, UnderSharesEagerInferenceAndAnotherGetNearlyWhatTheyGetAlone) {
  const Pair got = inference_beside_device_bound("shares");
  EXPECT_LE(got.latency, 1.15);
  EXPECT_GE(got.other, 0.75);
}

TEST(GpuDevice, PermitsThatExcludeEachOtherCostBothOfThemMost) {
  const Pair window = inference_beside_device_bound("window");
  EXPECT_GE(window.latency, 2);
  EXPECT_LE(window.other, 0.62) << "the device is idle while inference holds it";
  const Pair deadline = inference_beside_device_bound("deadline");
  EXPECT_GE(deadline.latency, 5) << "its request does not cover what its host needs";
  EXPECT_LE(deadline.other, 0.62);
}

TEST(GpuDevice, EagerProgramsUseTheGapsOfEachOther) {
  const auto batches = [](std::string_view arbiter, int clients) {
    Bed bed(arbiter, gpu(Micros(100)));
    for (int i = 0; i < clients; ++i)
      bed.add(client(static_cast<ClientId>(i + 1), 250, 250 * i), {Millis(10), kEager});
    bed.run(Seconds(2));
    size_t all = 0;
    for (int i = 0; i < clients; ++i) all += bed.latencies(static_cast<ClientId>(i + 1)).size();
    return static_cast<double>(all);
  };
  const double alone = batches("shares", 1);
  EXPECT_GE(batches("shares", 4), 2.5 * alone) << "four times, less what switching costs";
  EXPECT_GE(batches("introspective", 4), 2 * alone) << "its permits hold at once";
  EXPECT_LE(batches("window", 4), 1.05 * alone);
}

// Of clients that always have work, over seconds.
TEST(GpuDevice, UnderSharesDeviceBoundClientsUseTheirRequests) {
  const struct {
    std::vector<int> requests;
    Nanos grain;
  } cases[] = {{{400, 600}, Millis(1)}, {{200, 300, 500}, Micros(200)}, {{50, 950}, Millis(3)}};
  for (const auto& [requests, grain] : cases) {
    Bed bed("shares", gpu(grain));
    int from = 0;
    for (ClientId id = 1; const int request : requests) {
      bed.add(client(id, request, from), {Millis(20 * id)});
      from += request;
      ++id;
    }
    bed.run(Seconds(1));
    std::vector<double> used;
    for (ClientId id = 1; id <= requests.size(); ++id) used.push_back(-bed.used(id));
    bed.run(Seconds(6));
    for (ClientId id = 1; id <= requests.size(); ++id) used[id - 1] += bed.used(id);
    const double all = std::accumulate(used.begin(), used.end(), 0.0);
    EXPECT_GE(all, 0.98 * 5) << "the device is kept at work";
    for (size_t i = 0; i < used.size(); ++i)
      EXPECT_NEAR(used[i] / all, requests[i] / 1000.0, 0.005) << requests[i];
  }
}

TEST(GpuDevice, UnderSharesALimitIsKeptOnAnIdleDevice) {
  Bed bed("shares");
  ShareClient limited = client(1, 200);
  limited.quota.limit = {300};
  bed.add(limited, {Millis(20)});
  bed.run(Seconds(4));
  EXPECT_NEAR(bed.used(1), 0.3 * 4, 0.015);
}

TEST(GpuDevice, ClientsOfOtherSmsDoNotWaitForEachOther) {
  Bed bed("shares");
  ShareClient left = client(1, 1000), right = client(2, 1000);
  left.sm = right.sm = {500};
  right.position.sm_begin = {500};
  bed.add(left, {Millis(20)});
  bed.add(right, {Millis(20)});
  bed.run(Seconds(2));
  EXPECT_EQ(bed.used(1), 2);
  EXPECT_EQ(bed.used(2), 2);
}

TEST(GpuDevice, TheSameProgramsTakeTheSameTimes) {
  const auto play = [] {
    Bed bed("shares", gpu(Micros(100)));
    bed.add(client(1, 400), {Millis(10), kEager, Millis(25)});
    bed.add(client(2, 600, 400), {Millis(20)});
    bed.run(Seconds(2));
    return std::pair(bed.latencies(1), bed.latencies(2));
  };
  EXPECT_EQ(play(), play());
}

TEST(GpuDevice, AClientThatLeavesGivesTheDeviceBack) {
  Bed bed("shares");
  bed.add(client(1, 500), {Millis(20)});
  bed.add(client(2, 500, 500), {Millis(20)});
  bed.run(Seconds(1));
  bed.remove(2);
  const double before = bed.used(1);
  bed.run(Seconds(2));
  EXPECT_NEAR(bed.used(1) - before, 1, 0.001);
}

}  // namespace
}  // namespace sluice::sim
