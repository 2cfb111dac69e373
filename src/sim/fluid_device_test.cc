#include "sim/fluid_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::sim {
namespace {

using policy::ClientId;
using policy::ShareClient;

constexpr Time kStart = Time(Seconds(3600));

ShareClient client(ClientId id, int sm, int sm_begin, int request, int limit, int time_begin = 0) {
  return {.id = id,
          .sm = {sm},
          .quota = {{request}, {limit}},
          .position = {{sm_begin}, {time_begin}},
          .has_slo = true};
}

// A device whose clients begin batches, and the times at which they end.
class Bed {
 public:
  explicit Bed(std::string_view arbiter = "planned", const Physics& physics = {})
      : device(physics) {
    EXPECT_TRUE(device.run(arbiter).ok());
  }
  void add(const ShareClient& c) { EXPECT_TRUE(device.admit(c, now).ok()); }
  void begin(ClientId id, Nanos work) { device.begin(id, work, 1, now + Seconds(1), now); }
  // Lets time pass until nothing happens any more, and returns the ends in milliseconds.
  std::map<ClientId, int64_t> run() {
    std::map<ClientId, int64_t> ends;
    for (Time next = device.next(); next < Time::max(); next = device.next()) {
      now = std::max(now, next);
      for (const ClientId id : device.step(now)) ends[id] = (now - kStart) / Millis(1);
    }
    return ends;
  }

  FluidDevice device;
  Time now = kStart;
};

using Ends = std::map<ClientId, int64_t>;

TEST(FluidDevice, EveryArbiterHasARule) {
  for (const std::string& name : policy::arbiter_names())
    EXPECT_NE(find_sharing(name), nullptr) << name;
}

TEST(FluidDevice, ABatchAloneTakesItsWork) {
  Bed bed;
  bed.add(client(1, 1000, 0, 300, 1000));
  bed.begin(1, Millis(30));
  EXPECT_EQ(bed.run(), (Ends{{1, 30}}));
  EXPECT_EQ(bed.device.used(1, bed.now), Millis(30));
}

}  // namespace
}  // namespace sluice::sim
