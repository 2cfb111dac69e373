// The table of plans, and which one a job has.
#include "policy/plan/plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/plan/plan_elastic.h"
#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(Plans, AreFoundByNameAndEveryBundleNamesOne) {
  for (const Plan& p : plans()) {
    EXPECT_EQ(find_plan(p.name), &p) << p.name << " twice";
    EXPECT_FALSE(p.summary.empty()) << p.name;
    EXPECT_NE(p.run, nullptr) << p.name;
  }
  EXPECT_EQ(find_plan("magic"), nullptr);
  for (const Bundle& b : bundles()) EXPECT_NE(find_plan(b.plan), nullptr) << b.name;
}

TEST(Plans, TheirSettingsAreShownAsTheyAreRead) {
  for (const Plan& p : plans()) {
    EXPECT_TRUE(p.settings.check().ok()) << p.name;
    for (const SettingInfo& s : p.settings.list()) {
      const auto again = p.settings.with({{s.name, s.value}});
      EXPECT_TRUE(again.ok()) << p.name << ": " << again.error().message;
    }
  }
}

TEST(Plans, AJobsOwnComesBeforeThePlatformsAndThatBeforeItsBundles) {
  const Bundle& sjf = *find_bundle("sjf");
  FunctionSpec job{.kind = TrainingSpec{}};
  EXPECT_EQ(plan_of(job, "", sjf).name, "sjf");
  EXPECT_EQ(plan_of(job, "fifo", sjf).name, "fifo");
  job.training().plan = "sluice";
  EXPECT_EQ(plan_of(job, "fifo", sjf).name, "sluice");
  job.training().plan = "one of a later version";
  EXPECT_EQ(plan_of(job, "fifo", sjf).name, "fifo");
}

TEST(Plans, AJobHasTheSettingsOfItsPlanAndThenItsOwn) {
  FunctionSpec job{.policy_settings = {{"floor", "20%"}}, .kind = TrainingSpec{}};
  const Bundle& bundle = *find_bundle("has-gpu");
  EXPECT_EQ(settings_of(bundle, job, {}).as<ElasticSettings>().floor, Share{200});
  EXPECT_THAT(settings_of(bundle, job, {.plan = "fifo"}).list(), IsEmpty());
}

TEST(Plans, ThePlatformsDecidesForJobsThatNameNone) {
  JobCluster c(2);
  c.plan = "fifo";
  c.job("j", {.most = 1});
  c.tick();
  ASSERT_THAT(c.instances("j"), SizeIs(1));
  EXPECT_EQ(c.instances("j")[0]->slice(), slice(1000, 1000)) << "a whole device";
}

TEST(Plans, SeveralOnOneClusterTakeNoDeviceTwiceAndRememberApart) {
  JobCluster c(4);
  std::get<TrainingSpec>(c.job("a", {.most = 2}).spec.kind).plan = "fifo";
  c.job("b");
  for (int i = 0; i < 3; ++i) c.tick();
  c.expect_sound();
  EXPECT_EQ(c.workers("a"), "d0 d1");
  EXPECT_EQ(c.workers("b"), "d2 d3");
  EXPECT_TRUE(c.memories.contains("has-gpu fifo jobs on cpu cuda"));
  EXPECT_TRUE(c.memories.contains("has-gpu sluice jobs on cpu cuda"));
}

}  // namespace
}  // namespace sluice::policy
