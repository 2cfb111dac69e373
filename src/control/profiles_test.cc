#include "control/profiles.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

const DeviceType kHalf{"cpu/500m"}, kQuarter{"cpu/250m"};

Profile profile(const std::string& path, const std::string& content, const DeviceType& type,
                Nanos median) {
  return {.model = path, .content = content, .device = type, .points = {{.median = median}}};
}

ModelSpec model(const std::string& path, const std::string& content) {
  return {.path = path, .content = content};
}

FunctionSpec serving(const std::string& path, const std::string& content) {
  return {.kind = InferenceSpec{.model = model(path, content)}};
}

// Returns the median that is found; 0 if none is.
Nanos found(const Profiles& all, const ModelSpec& model, const DeviceType& type) {
  const Profile* p = all.find(model, type);
  return p == nullptr ? Nanos(0) : p->points[0].median;
}

TEST(Profiles, AMovedModelKeepsItsProfileAndAReplacedOneHasNone) {
  Profiles all;
  all.set(profile("/m.pt", "aa", kHalf, Millis(5)));
  EXPECT_EQ(found(all, model("/m.pt", "aa"), kHalf), Millis(5));
  EXPECT_EQ(found(all, model("/elsewhere.pt", "aa"), kHalf), Millis(5));
  EXPECT_EQ(found(all, model("/m.pt", "bb"), kHalf), Nanos(0));
}

TEST(Profiles, AreOfATypeOfDevice) {
  Profiles all;
  all.set(profile("/m.pt", "aa", kHalf, Millis(5)));
  EXPECT_EQ(found(all, model("/m.pt", "aa"), kQuarter), Nanos(0));
  all.set(profile("/m.pt", "aa", kQuarter, Millis(10)));
  EXPECT_EQ(found(all, model("/m.pt", "aa"), kQuarter), Millis(10));
  EXPECT_EQ(all.fastest(serving("/m.pt", "aa"), {{kHalf, kQuarter}}), Millis(5));
  EXPECT_EQ(all.fastest(serving("/m.pt", "aa"), {{kQuarter}}), Millis(10));
  EXPECT_EQ(all.fastest(serving("/m.pt", "bb"), {{kQuarter}}), std::nullopt);
}

TEST(Profiles, OldOnesAreFoundByPathOnAnyTypeUntilTheModelIsMeasuredAgain) {
  Profiles all;
  all.set(profile("/m.pt", "", {}, Millis(7)));
  EXPECT_EQ(found(all, model("/m.pt", "aa"), kHalf), Millis(7));
  EXPECT_EQ(found(all, model("/m.pt", ""), kQuarter), Millis(7));
  EXPECT_EQ(found(all, model("/other.pt", "aa"), kHalf), Nanos(0));
  all.set(profile("/m.pt", "aa", kHalf, Millis(5)));
  EXPECT_EQ(found(all, model("/m.pt", "aa"), kHalf), Millis(5));
  EXPECT_EQ(found(all, model("/m.pt", "bb"), kHalf), Nanos(0)) << "the old one is gone";
}

TEST(Profiles, AnEstimateOfWhatWasMeasuredIsSuperfluous) {
  Profiles all;
  Profile estimate = profile("/m.pt", "aa", kHalf, Millis(7));
  estimate.estimated = 0.3;
  EXPECT_FALSE(all.superfluous(estimate));
  all.set(estimate);
  EXPECT_FALSE(all.superfluous(estimate)) << "a newer one";
  EXPECT_FALSE(all.fastest(serving("/m.pt", "aa"), std::vector{kHalf}))
      << "nothing is refused by it";
  all.set(profile("/m.pt", "aa", kHalf, Millis(5)));
  EXPECT_TRUE(all.superfluous(estimate));
  EXPECT_EQ(found(all, model("/m.pt", "aa"), kHalf), Millis(5));
}

TEST(Profiles, AnEstimateIsSuperfluousAlsoWhereAnEarlierVersionMeasured) {
  Profiles all;
  all.set(profile("/m.pt", "", {}, Millis(5)));
  Profile estimate = profile("/m.pt", "aa", kHalf, Millis(7));
  estimate.estimated = 0.3;
  EXPECT_TRUE(all.superfluous(estimate));
  EXPECT_FALSE(all.superfluous(profile("/m.pt", "aa", kHalf, Millis(7))))
      << "a measurement never is";
}

TEST(Profiles, ReadWhatTheyWrite) {
  Profile p{.model = "/m.pt",
            .content = "aa",
            .device = kHalf,
            .function = {.name = "f"},
            .memory = 1 << 20,
            .points = {{{2, {500}, {400}}, Millis(2), Millis(3), 10}}};
  p.live = 1.5;
  p.points.push_back({.at = {2, kWhole, kWhole}, .median = Millis(7), .filled = true});
  p.points[0].utilisation = {398};
  p.points[0].occupancy = {120};
  EXPECT_EQ(*profile_from(to_json(p)), p);
  EXPECT_NE(profile_from({{"points", {{{"batch", 0}}}}}).error().message.find("batch"),
            std::string::npos);
  EXPECT_NE(profile_from({{"function", "f"}}).error().message.find("model"), std::string::npos);
}

TEST(Profiles, OnesOfEarlierVersionsHaveNoUtilisation) {
  const auto p = profile_from(
      {{"model", "/m.pt"},
       {"points", {{{"batch", 1}, {"sm", 1000}, {"quota", 400}, {"latency_p50_us", 2000}}}}});
  ASSERT_TRUE(p.ok()) << p.error().message;
  EXPECT_EQ(p->points.at(0).utilisation, kNone);
  EXPECT_EQ(p->points.at(0).occupancy, kNone);
}

}  // namespace
}  // namespace sluice::control
