// Properties under random schedules: thousands of devices, clients and hosts of all kinds. A
// failure prints the seed; `Schedule(seed)` replays it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "arbiters/account.h"
#include "tests/support/arbiter_simulation.h"

namespace sluice::policy {
namespace {

// Cuts a line of 1000 ‰ into random pieces of at least `least`, about `pieces` of them.
std::vector<int> cuts(Random& random, int pieces, int least) {
  std::vector<int> at = {0, 1000};
  for (int i = 1; i < pieces; ++i) {
    const int cut = static_cast<int>(random.between(least, 1000 - least));
    const bool room = std::all_of(at.begin(), at.end(),
                                  [&](int other) { return std::abs(other - cut) >= least; });
    if (room) at.push_back(cut);
  }
  std::sort(at.begin(), at.end());
  return at;
}

// Clients in lanes that fill the device exactly; every arbiter accepts them. (random_packing has
// rectangles of any width, for all arbiters but `window`.)
std::vector<ShareClient> random_lanes(Random& random) {
  std::vector<ShareClient> clients;
  const std::vector<int> lanes = cuts(random, static_cast<int>(random.between(1, 4)), 50);
  for (size_t lane = 0; lane + 1 < lanes.size(); ++lane) {
    const std::vector<int> turns = cuts(random, static_cast<int>(random.between(1, 5)), 10);
    for (size_t turn = 0; turn + 1 < turns.size(); ++turn) {
      const Share request{turns[turn + 1] - turns[turn]};
      const Share limit = random.chance(0.5)
                              ? request
                              : Share{static_cast<int>(random.between(request.permille, 1000))};
      clients.push_back({.id = static_cast<ClientId>(clients.size() + 1),
                         .sm = {lanes[lane + 1] - lanes[lane]},
                         .quota = {request, limit},
                         .position = {{lanes[lane]}, {turns[turn]}}});
    }
  }
  return clients;
}

Behaviour random_behaviour(Random& random, Nanos longest) {
  const Nanos op =
      Micros(300) + from_seconds(random.uniform() * random.uniform() * seconds(longest));
  if (random.chance(0.1)) return idle();
  if (random.chance(0.3))
    return bursty(op, Millis(random.between(1, 200)), Millis(random.between(1, 200)));
  return greedy(op / 2, op);
}

// A model server's hints, true or not.
void say_anything(Simulation& device, const std::vector<ShareClient>& clients, Nanos from,
                  Nanos until, uint64_t seed) {
  Random random(seed);
  for (Nanos t = from; t < until; t += Micros(random.between(1, 20'000))) {
    const ClientId id = clients[random.below(clients.size())].id;
    if (random.chance(0.5)) {
      const Nanos due = random.chance(0.2) ? Nanos(Seconds(1'000'000'000))
                                           : Micros(random.between(-20'000, 200'000));
      device.at(t, [&device, id, due] { device.say_deadline(id, due); });
    } else {
      const Nanos cycle = Micros(random.between(0, 100'000));
      const auto kind = static_cast<uint32_t>(random.below(20));
      device.at(t, [&device, id, cycle, kind] { device.say_iteration(id, cycle, kind); });
    }
  }
}

class AnySchedule : public testing::TestWithParam<std::string> {
 protected:
  bool permits_exclude_each_other() const {
    return GetParam() != "introspective" && !GetParam().starts_with("share_fixed");
  }
  bool promises_to_serve_all() const {
    return GetParam() == "planned" || GetParam() == "deadline" || GetParam() == "window";
  }
};
INSTANTIATE_TEST_SUITE_P(, AnySchedule, testing::ValuesIn(arbiter_names(DeviceKind::kCpu)),
                         [](const auto& info) { return std::string(info.param); });

// Everything at once: late and lost reports, a late host whose clock goes backwards, and clients
// that never drain, join every millisecond, leave and change their quotas.
TEST_P(AnySchedule, HoldersNeverExceedTheDeviceAndNobodyStarves) {
  for (uint64_t seed = 1; seed <= 200; seed += one_of()) {
    Random random(seed);
    Simulation device(GetParam(), seed);
    device.set_host(Micros(random.between(0, 2000)), Micros(random.between(0, 3000)));
    const bool in_lanes = GetParam() == "window" || random.chance(0.5);
    std::vector<ShareClient> clients =
        in_lanes ? random_lanes(random) : random_packing(random, 3 + random.below(8));
    Random mix(seed);
    for (ShareClient& c : clients) c.has_slo = mix.chance(0.5);
    std::vector<Nanos> ops;
    const bool loses_reports = random.chance(0.5);
    const size_t stuck = random.chance(0.3) ? random.below(clients.size()) : clients.size();
    for (size_t i = 0; i < clients.size(); ++i) {
      const Meter meter = {.lag = Micros(random.chance(0.5) ? 0 : random.between(1, 9000)),
                           .loss = loses_reports ? random.uniform() : 0};
      const Behaviour behaviour =
          i == stuck ? never_draining() : random_behaviour(random, Millis(60));
      ops.push_back(behaviour.op_max);
      device.at(Millis(i), [&device, &clients, i, behaviour, meter] {
        ASSERT_TRUE(device.add(clients[i], behaviour, meter).ok());
      });
      if (random.chance(0.2)) {
        device.at(Millis(random.between(100, 400)), [&device, &clients, i] {
          clients[i].quota.request = {clients[i].quota.request.permille / 2};
          ASSERT_TRUE(device.change(clients[i]).ok());
        });
      }
    }
    const ClientId leaver = random.chance(0.3) && clients.size() > 1 ? clients.back().id : 0;
    if (leaver != 0) device.at(Millis(500), [&, leaver] { device.remove(leaver); });
    // A wide client among narrow ones may wait for five seconds.
    const Seconds end{in_lanes ? 3 : 8};
    say_anything(device, clients, Millis(clients.size()), end, seed);
    device.run(end);
    if (permits_exclude_each_other()) {
      ASSERT_LE(device.highest_sm(), 1000) << "seed " << seed;
    }
    // Lost reports of use leave less than the requests.
    if (loses_reports || !promises_to_serve_all()) continue;
    for (size_t i = 0; i < clients.size(); ++i) {
      const ShareClient& c = clients[i];
      if (c.id == leaver || !device.backlogged(c.id, Seconds(1), end)) continue;
      // An operator of 60 ms takes a client of 1 % six seconds to pay.
      if (ops[i] > Micros(500) * c.quota.request.permille) continue;
      ASSERT_GT(device.used(c.id, Seconds(1), end), Nanos(0))
          << "seed " << seed << ": client " << c.id << " starves";
    }
  }
}

// A client without competitors gets its limit in each window, up to one operator, though client and
// host are kept from their processors, and the host for longer.
TEST_P(AnySchedule, NoWindowHasMoreThanTheLimitWhoeverIsPaused) {
  for (uint64_t seed = 1; seed <= 100; seed += one_of()) {
    Random random(seed);
    const Nanos window = window_of(GetParam());
    Simulation device(GetParam(), seed, {.window = window});
    device.set_host(Micros(random.between(0, 6000)), Nanos(0));
    const Share limit{static_cast<int>(random.between(50, 900))};
    const Nanos op = Micros(random.between(10, 1000));
    ASSERT_TRUE(device.add({.id = 1, .sm = {1000}, .quota = {limit, limit}}, greedy(op)).ok());
    const Nanos end = Seconds(2);
    for (Nanos t{0}; t < end; t += from_seconds(random.exponential(0.1)))
      device.pause(t, Micros(random.between(0, 26'000)));
    device.run(end);
    for (Nanos t{0}; t < end; t += window) {
      const Nanos allowed = window * limit.permille / 1000 + op + kLeastGrant;
      ASSERT_LE(device.used(1, t, t + window), allowed) << "seed " << seed;
    }
  }
}

// With a meter that works, a client with work throughout gets its request in windows of 500 ms, up
// to two operators and half a window of the plan. (A deficit at the end is paid later.) It never
// gets more than its limit, with the same tolerance.
class KeepsRequests : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, KeepsRequests, testing::Values("planned", "deadline", "window"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(KeepsRequests, OfAllWhoHaveWork) {
  for (uint64_t seed = 1; seed <= 400; seed += one_of()) {
    Random random(seed);
    Simulation device(GetParam(), seed);
    const std::vector<ShareClient> clients = random_lanes(random);
    const Nanos longest = Micros(random.chance(0.5) ? 1000 : 60'000);
    Nanos longest_here{0};
    std::vector<Nanos> ops;
    for (const ShareClient& c : clients) {
      const Behaviour behaviour = random_behaviour(random, longest);
      ops.push_back(behaviour.op_max);
      longest_here = std::max(longest_here, behaviour.op_max);
      ASSERT_TRUE(device.add(c, behaviour).ok());
    }
    say_anything(device, clients, Nanos(0), Millis(1500), seed);
    device.run(Millis(1500));
    ASSERT_LE(device.highest_sm(), 1000) << "seed " << seed;
    const Nanos window = Millis(500);
    for (size_t i = 0; i < clients.size(); ++i) {
      const ClientId id = clients[i].id;
      const Quota quota = clients[i].quota;
      for (Nanos w{0}; w < Millis(1500); w += window) {
        const Nanos used = device.used(id, w, w + window);
        const double allowed =
            quota.limit.fraction() * seconds(window) + seconds(ops[i] + longest_here);
        ASSERT_LE(seconds(used), allowed + 0.01) << "seed " << seed << ", client " << id;
        if (!device.backlogged(id, w, w + window)) continue;
        const double promised = quota.request.fraction() * seconds(window) -
                                2 * seconds(std::max(longest_here, ops[i]));
        ASSERT_GE(seconds(used), promised - 0.01) << "seed " << seed << ", client " << id;
      }
    }
  }
}

}  // namespace
}  // namespace sluice::policy
