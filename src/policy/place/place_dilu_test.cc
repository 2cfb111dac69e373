// Dilu's Algorithm 1: the least fragment, within Ω and γ, beside known neighbours.
#include "policy/place/place_dilu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "base/random.h"

namespace sluice::policy {
namespace {

// Devices d0, d1, … with a memory of 100.
class Complementary : public testing::Test {
 protected:
  void devices(int count, Bytes memory = 100) {
    for (int i = 0; i < count; ++i) {
      Device d;
      d.id = "d" + std::to_string(devices_.size());
      d.memory = memory;
      d.sm_quantum = {250};
      devices_.push_back(d);
    }
  }
  const FunctionView* function(const std::string& name) {
    FunctionView& view = functions_[name];
    view.spec.name.name = name;
    return &view;
  }
  Layouts& layouts() {
    if (layouts_.empty()) layouts_.emplace_back(devices_, *find_placement("complementary"));
    return layouts_.front();
  }
  // Adds an instance there, before the first placement.
  void on(size_t device, const std::string& name, int request, Bytes memory, int limit = 0) {
    Layout& layout = layouts()[device];
    Room room{.id = id(), .sm = kWhole, .quota = {request}, .memory = memory, .movable = true};
    room.limit = {std::max(limit, request)};
    room.owner = function(name);
    layout.place(room, layout.openings(kWhole).at(0));
  }
  // Places an instance and returns the devices of its parts: "d0 d1".
  std::string place(const std::string& name, int request, Bytes memory, int limit = 0,
                    int parts = 1, bool apart = false) {
    const Quota quota{{request}, {std::max(limit, request)}};
    std::string found;
    const PlaceRequest asked{function(name), kWhole, quota, memory, parts, nullptr, apart};
    for (const Spot& s : place_dilu(layouts(), asked)) {
      Room room{.id = id(), .sm = kWhole, .quota = quota.request, .memory = memory};
      room.movable = true;
      room.limit = quota.limit;
      room.owner = function(name);
      s.device->place(room, s.opening);
      found += (found.empty() ? "" : " ") + s.device->device().id;
    }
    return found;
  }
  std::string id() { return "r" + std::to_string(count_++); }

  std::vector<Device> devices_;
  std::map<std::string, FunctionView> functions_;
  std::deque<Layouts> layouts_;
  int count_ = 0;
};

TEST_F(Complementary, TheLeastFragmentOfBothResources) {
  devices(4);
  on(0, "a", 500, 10);  // 0.6 · 0.5 + 0.4 · 0.9 = 0.66
  on(1, "b", 400, 50);  // 0.6 · 0.6 + 0.4 · 0.5 = 0.56
  on(2, "c", 450, 30);  // 0.6 · 0.55 + 0.4 · 0.7 = 0.61
  EXPECT_EQ(place("x", 100, 10), "d1");
  EXPECT_EQ(place("y", 550, 10), "d2");
  EXPECT_EQ(place("z", 550, 10), "d3") << "a new device, if no fragment is large enough";
}

TEST_F(Complementary, WithinOmegaGammaAndMemory) {
  devices(2);
  on(0, "a", 500, 40, 1000);
  EXPECT_EQ(place("request", 501, 10, 501), "d1");
  EXPECT_EQ(place("limit", 250, 10, 501), "d1") << "limits add up to γ = 1.5";
  EXPECT_EQ(place("fits", 250, 10, 500), "d0");
  EXPECT_EQ(place("memory", 10, 90), "");
  EXPECT_EQ(place("left", 10, 80), "d1");
}

// Figure 5 of the paper: the second instance of b joins the second of a.
TEST_F(Complementary, BesideTheNeighboursThatTheFunctionHas) {
  devices(4);
  on(0, "a", 300, 10), on(0, "b", 300, 10);
  on(1, "c", 600, 60);
  on(2, "a", 300, 10);
  EXPECT_EQ(place("b", 300, 10), "d2") << "though d1 is the lesser fragment";
  EXPECT_EQ(place("b", 300, 10), "d1") << "not again where it is";
  EXPECT_EQ(place("d", 300, 10), "d0") << "a function without neighbours";
}

TEST_F(Complementary, PartsMeetTheSameNeighbours) {
  devices(5);
  on(0, "a", 600, 80);  // the least fragment
  on(1, "c", 600, 70);
  on(2, "a", 300, 10);
  EXPECT_EQ(place("b", 300, 10, 0, 2), "d0 d2");
  EXPECT_EQ(place("e", 900, 10, 0, 2), "d3 d4");
  EXPECT_EQ(place("e", 900, 10, 0, 2), "");
}

TEST_F(Complementary, ApartFromTheFunctionsOtherInstances) {
  devices(3);
  on(0, "a", 300, 10);
  EXPECT_EQ(place("a", 300, 10, 0, 1, true), "d1") << "though d0 is in use";
  EXPECT_EQ(place("a", 300, 10, 0, 2, true), "") << "one device is left";
  EXPECT_EQ(place("a", 300, 10, 0, 1, true), "d2");
}

TEST_F(Complementary, ChangesCountAtOnce) {
  devices(2);
  on(0, "a", 300, 10);
  EXPECT_EQ(place("b", 300, 10), "d0");
  layouts()[0].resize("r0", {100});
  EXPECT_EQ(place("c", 600, 10), "d0");
  EXPECT_EQ(place("d", 100, 10), "d1");
}

// What each request alone would give, by a scan of all devices.
std::string scanned(Layouts& layouts, const PlaceRequest& r) {
  double best = 1e9;
  std::string found;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const Layout& l = layouts[i];
    double request = r.quota.request.fraction(), limit = r.quota.limit.fraction();
    for (const Room& room : l.rooms())
      request += room.quota.fraction(), limit += room.limit.fraction();
    const Bytes all = l.device().memory;
    const double memory =
        static_cast<double>(all - l.free_memory() + r.memory) / static_cast<double>(all);
    if (!takes(l, r.memory) || request > 1 + 1e-9 || limit > 1.5 + 1e-9 || memory > 1) continue;
    const double score = 0.6 * (1 - request) + 0.4 * (1 - memory) + (l.used() ? 0 : 10);
    if (score < best - 1e-5) best = score, found = l.device().id;
  }
  return found;
}

TEST_F(Complementary, FindsWhatAScanOfAllDevicesFinds) {
  Random random(7);
  devices(40), devices(30, 160);
  for (size_t i = 0; i < devices_.size(); i += 11) devices_[i].drained = true;
  int placed = 0;
  for (int i = 0; i < 400; ++i) {
    const Share request{static_cast<int>(50 + 10 * random.below(50))};
    const Quota quota{request, {std::min(1000, 2 * request.permille)}};
    const auto memory = static_cast<Bytes>(5 + random.below(40));
    // Each its own function, so that none has neighbours.
    const std::string name = "f" + std::to_string(i);
    const std::string expected = scanned(layouts(), {function(name), kWhole, quota, memory, 1});
    EXPECT_EQ(place(name, quota.request.permille, memory, quota.limit.permille), expected) << i;
    placed += !expected.empty();
  }
  EXPECT_GT(placed, 150);
  EXPECT_LT(placed, 400) << "full in the end";
}

// The memory of each stage: "d1 60, d0 40".
std::string stages(Layouts& layouts, Bytes memory, int request = 100) {
  std::string found;
  for (const auto& [spot, part] :
       place_in_stages(layouts, {nullptr, kWhole, {{request}, {request}}, memory}))
    found += (found.empty() ? "" : ", ") + spot.device->device().id + " " + std::to_string(part);
  return found;
}

TEST_F(Complementary, AModelTooLargeForAnyDeviceGoesToTheFewest) {
  devices(4);
  on(0, "a", 300, 70), on(1, "b", 300, 40), on(2, "c", 300, 10), on(3, "d", 950, 0);
  EXPECT_EQ(stages(layouts(), 120), "d2 60, d1 60");
  EXPECT_EQ(stages(layouts(), 140), "d2 80, d1 60") << "as equal as they can be";
  EXPECT_EQ(stages(layouts(), 180), "d2 90, d1 60, d0 30");
  EXPECT_EQ(stages(layouts(), 181), "") << "d3 has memory, but no time";
}

}  // namespace
}  // namespace sluice::policy
