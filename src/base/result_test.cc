#include "base/result.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error{ErrorKind::kInvalid, "n: " + std::to_string(n) + " is odd"};
  return n / 2;
}

Result<int> quarter(int n) {
  SLUICE_ASSIGN(h, half(n));
  SLUICE_TRY(half(h));
  return half(h);
}

TEST(Result, HandsValuesAndErrorsThrough) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(7).error().message, "n: 7 is odd");
  EXPECT_EQ(quarter(6).error().message, "n: 3 is odd");
  EXPECT_EQ(quarter(6).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(half(3).value_or(-1), -1);
  EXPECT_EQ(within("file.yaml", half(3).error()).message, "file.yaml: n: 3 is odd");
}

TEST(Result, OfVoidIsOkUntilToldOtherwise) {
  EXPECT_TRUE(Result<void>().ok());
  EXPECT_FALSE(Result<void>(Error{ErrorKind::kNotFound, "gone"}).ok());
}

TEST(ResultDeathTest, ValueOfAnErrorIsOurOwnFault) {
  EXPECT_DEATH((void)*half(1), "is odd");
}

}  // namespace
}  // namespace sluice
