#include "wire/json/non_finite.h"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

TEST(NonFinite, AreWrappedOutsideOfTexts) {
  const auto quoted = [](std::string_view json) { return wrap_non_finite(json, "\"", "\""); };
  EXPECT_EQ(quoted(R"([NaN,-Infinity, Infinity,1])"), R"(["NaN","-Infinity", "Infinity",1])");
  EXPECT_EQ(quoted(R"({"NaN \" Infinity":NaN})"), R"({"NaN \" Infinity":"NaN"})");
  EXPECT_EQ(quoted(R"({"NaN":["Infinity",1]})"), std::nullopt);
  EXPECT_EQ(wrap_non_finite("[NaN]", "{\"", "\":0}"), R"([{"NaN":0}])");
}

}  // namespace
}  // namespace sluice::wire
