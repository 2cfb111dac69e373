#include "policy/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "policy/decide.h"
#include "policy/scale/scale_has_gpu.h"

namespace sluice::policy {
namespace {

using testing::HasSubstr;

std::string refusal(const SettingTexts& texts) {
  const auto changed = Settings(HasGpuSettings{}).with(texts);
  return changed.ok() ? "" : changed.error().message;
}

TEST(Settings, AreChangedByNameAndLeaveTheOthers) {
  const auto changed =
      Settings(HasGpuSettings{})
          .with({{"alpha", "0.8"}, {"cooldown", "2m"}, {"min_quota", "2.5%"}, {"borrow", "true"}});
  ASSERT_TRUE(changed.ok()) << changed.error().message;
  const auto& values = changed->as<HasGpuSettings>();
  EXPECT_EQ(values.alpha, 0.8);
  EXPECT_EQ(values.cooldown, Seconds(120));
  EXPECT_EQ(values.min_quota, Share{25});
  EXPECT_TRUE(values.borrow);
  EXPECT_EQ(values.beta, HasGpuSettings{}.beta);
}

TEST(Settings, ARefusalNamesTheSettingTheValueAndWhatIsAllowed) {
  EXPECT_EQ(refusal({{"alpha", "1.5"}}), "alpha: 1.5 is not allowed; 0.05 to 1 are");
  EXPECT_EQ(refusal({{"alpha", "much"}}), "alpha: \"much\" is not a number; allowed are 0.05 to 1");
  EXPECT_EQ(refusal({{"borrow", "yes"}}),
            "borrow: \"yes\" is not true or false; allowed are true or false");
  EXPECT_EQ(refusal({{"cooldown", "2h"}}), "cooldown: 2h is not allowed; 0s to 1h are");
  EXPECT_THAT(refusal({{"cooldown", "10"}}), HasSubstr("cooldown: \"10\""));
  EXPECT_THAT(refusal({{"alhpa", "1"}}),
              HasSubstr("alhpa is no setting of this policy; did you mean 'alpha'?"));
  EXPECT_EQ(Settings().with({{"alpha", "1"}}).error().message,
            "alpha: this policy has no settings");
}

TEST(Settings, ThatContradictEachOtherAreNamedWithTheirValues) {
  const auto contradiction = [](const SettingTexts& texts) {
    const auto checked = Settings(HasGpuSettings{}).with(texts)->check();
    return checked.ok() ? "" : checked.error().message;
  };
  EXPECT_EQ(contradiction({{"beta", "0.8"}, {"alpha", "0.75"}}),
            "beta: 0.8 is above alpha, which is 0.75; at most alpha is allowed");
  EXPECT_EQ(contradiction({{"alpha", "0.2"}}),
            "beta: 0.3 is above alpha, which is 0.2; at most alpha is allowed");
  EXPECT_EQ(contradiction({{"alpha", "0.2"}, {"beta", "0.2"}}), "");
  EXPECT_EQ(contradiction({}), "");
  EXPECT_TRUE(Settings().check().ok());
}

// A setting's shown text can be read back, and is allowed.
TEST(Settings, OfEveryBundleAreShownAsTheyAreRead) {
  for (const Bundle& bundle : bundles()) {
    EXPECT_TRUE(bundle.settings.check().ok()) << bundle.name;
    std::set<std::string> names;
    for (const SettingInfo& s : bundle.settings.list()) {
      EXPECT_TRUE(names.insert(s.name).second) << bundle.name << ": " << s.name << " twice";
      EXPECT_FALSE(s.meaning.empty()) << bundle.name << ": " << s.name;
      const auto again = bundle.settings.with({{s.name, s.value}});
      EXPECT_TRUE(again.ok()) << bundle.name << ": " << again.error().message;
    }
  }
}

TEST(Settings, AFunctionsOwnComeBeforeThePlatforms) {
  const Bundle& ours = *find_bundle("has-gpu");
  const PlatformPolicy platform{"has-gpu", {{"alpha", "0.5"}, {"beta", "0.1"}}};
  FunctionSpec spec;
  spec.policy_settings = {{"alpha", "0.6"}};
  const Settings own = settings_of(ours, spec, platform);
  EXPECT_EQ(own.as<HasGpuSettings>().alpha, 0.6);
  EXPECT_EQ(own.as<HasGpuSettings>().beta, 0.1);
  const Settings other = settings_of(*find_bundle("has-gpu-paper"), {}, platform);
  EXPECT_EQ(other.as<HasGpuSettings>().alpha, 0.9) << "the platform's are of its bundle alone";
}

}  // namespace
}  // namespace sluice::policy
