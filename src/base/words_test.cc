#include "base/words.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Words, AListIsBounded) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a"}), "a");
  EXPECT_EQ(listed({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(listed({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

TEST(Words, ASlipOfTheFingerIsFound) {
  const std::vector<std::string> commands{"apply", "get", "delete", "down", "describe", "rollback"};
  EXPECT_EQ(nearest("aply", commands), "apply");
  EXPECT_EQ(nearest("appyl", commands), "apply");
  EXPECT_EQ(nearest("gte", commands), "get");
  EXPECT_EQ(nearest("rolback", commands), "rollback");
  EXPECT_EQ(nearest("pods", commands), "");
  EXPECT_EQ(nearest("x", commands), "");
  EXPECT_EQ(nearest("", commands), "");
}

TEST(Words, NotFoundSaysWhatThereIs) {
  EXPECT_EQ(not_found("device", "cpu9", {}), "device 'cpu9' not found; there is none");
  EXPECT_EQ(not_found("device", "gpu", {"cpu0"}), "device 'gpu' not found; there is cpu0");
  EXPECT_EQ(not_found("function", "resnte", {"bert", "resnet"}),
            "function 'resnte' not found; there are bert and resnet; did you mean 'resnet'?");
}

TEST(Words, ACutFallsBetweenWords) {
  EXPECT_EQ(clipped("12.6/s at 70 %", 14), "12.6/s at 70 %");
  EXPECT_EQ(clipped("12.6/s at 1234 %", 12), "12.6/s at …");
  EXPECT_EQ(clipped("12345678", 4), "…");
  EXPECT_EQ(clipped("ä ö ü", 5), "ä ö ü");
  EXPECT_EQ(clipped("ä ö ü x", 5), "ä ö …");
}

TEST(Words, WidthCountsCharactersAndNotBytes) {
  EXPECT_EQ(width_of(""), 0u);
  EXPECT_EQ(width_of("70 %…█"), 6u);
}

}  // namespace
}  // namespace sluice
