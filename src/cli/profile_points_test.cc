#include "cli/profile_points.h"

#include <gmock/gmock.h>

namespace sluice::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Share kHalf{500}, kTenth{100};

ProfileRoom gpu_under_mps(Share quota = kWhole) {
  return {{.id = "cuda0", .kind = DeviceKind::kCuda, .sm_quantum = {10}}, quota};
}
ProfileRoom gpu_without_mps() {
  return {{.id = "cuda0", .kind = DeviceKind::kCuda}, kWhole, 0, "off: MPS was not asked for"};
}
ProfileRoom four_cores() {
  return {{.id = "cpu0", .sm_quantum = {250}, .can_resize_sm = true}, kWhole};
}

TEST(ProfilePoints, WidthsOnAGpuCostOneStartEach) {
  const Sweep sweep{.batches = {1}, .quotas = {kTenth, kWhole}, .sms = {kHalf, kWhole}};
  const auto widths = widths_in(gpu_under_mps(), sweep);
  ASSERT_TRUE(widths.ok());
  EXPECT_THAT(points_in(gpu_under_mps(), sweep, *widths),
              ElementsAre(Configuration{1, kWhole, kWhole}, Configuration{1, kWhole, kTenth},
                          Configuration{1, kHalf, kWhole}, Configuration{1, kHalf, kTenth}));
}

TEST(ProfilePoints, WhereARunningInstanceIsResizedTheLargestQuotasComeFirst) {
  const Sweep sweep{.batches = {2, 1}, .quotas = {kTenth, kWhole}, .sms = {kHalf, kWhole}};
  EXPECT_THAT(points_in(four_cores(), sweep, {kWhole, kHalf}),
              ElementsAre(Configuration{1, kWhole, kWhole}, Configuration{2, kWhole, kWhole},
                          Configuration{1, kHalf, kWhole}, Configuration{2, kHalf, kWhole},
                          Configuration{1, kWhole, kTenth}, Configuration{2, kWhole, kTenth},
                          Configuration{1, kHalf, kTenth}, Configuration{2, kHalf, kTenth}));
}

TEST(ProfilePoints, QuotasAboveTheFreeTimeAreReplacedByItOnce) {
  const Sweep sweep{.batches = {1}, .quotas = {{1000}, {700}, {100}}};
  EXPECT_THAT(points_in(gpu_under_mps(kHalf), sweep, {kWhole}),
              ElementsAre(Configuration{1, kWhole, kHalf}, Configuration{1, kWhole, kTenth}));
}

TEST(ProfilePoints, WithoutAStatedWidthADeviceHasItsOwn) {
  EXPECT_THAT(*widths_in(four_cores(), {}),
              ElementsAre(Share{1000}, Share{750}, Share{500}, Share{250}));
  EXPECT_THAT(*widths_in(gpu_under_mps(), {}), ElementsAre(kWhole, kHalf, Share{250}));
  EXPECT_THAT(*widths_in(gpu_without_mps(), {}), ElementsAre(kWhole));
}

TEST(ProfilePoints, FastGsharesAreRoundedToWhatTheDeviceCanHold) {
  const NamedPoints* points = named_points("fast-gshare");
  ASSERT_NE(points, nullptr);
  const Sweep sweep{.quotas = points->quotas, .sms = points->sms};
  EXPECT_THAT(*widths_in(gpu_under_mps(), sweep),
              ElementsAre(Share{1000}, Share{800}, Share{600}, Share{500}, Share{240}, Share{120},
                          Share{60}));
  EXPECT_THAT(*widths_in(four_cores(), sweep),
              ElementsAre(Share{1000}, Share{750}, Share{500}, Share{250}))
      << "6, 12 and 24 % are one core, 80 % all four";
  EXPECT_THAT(*widths_in(gpu_without_mps(), sweep), ElementsAre(kWhole)) << "its quotas alone";
  EXPECT_EQ(named_points("fast"), nullptr);
}

TEST(ProfilePoints, AStatedWidthThatTheDeviceCannotHaveIsNamed) {
  Sweep sweep{.sms = {kHalf, kWhole}, .needs_sms = true};
  const auto widths = widths_in(gpu_without_mps(), sweep);
  ASSERT_FALSE(widths.ok());
  EXPECT_EQ(widths.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(widths.error().message, HasSubstr("--sms: 50% of cuda0: only 100 is allowed"));
  EXPECT_THAT(widths.error().message, HasSubstr("MPS was not asked for"));
  sweep.sms = {kWhole};
  EXPECT_THAT(*widths_in(gpu_without_mps(), sweep), ElementsAre(kWhole));
}

TEST(ProfilePoints, APlanSearchesTheseWidthsAscending) {
  const profile::Grid grid = grid_in(gpu_under_mps(kHalf), {.batches = {1}}, {kWhole, kHalf});
  EXPECT_THAT(grid.sms, ElementsAre(kHalf, kWhole));
  EXPECT_THAT(grid.quotas, ElementsAre(Share{100}, Share{200}, Share{300}, Share{400}, Share{500}));
}

}  // namespace
}  // namespace sluice::cli
