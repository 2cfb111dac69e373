#include "base/secret.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Secret, IsTheSameOrNot) {
  EXPECT_TRUE(same_secret("secret", "secret"));
  EXPECT_TRUE(same_secret("", ""));
  for (const char* wrong : {"", "secre", "secretx", "Secret", "secretsecret"})
    EXPECT_FALSE(same_secret(wrong, "secret")) << wrong;
  EXPECT_FALSE(same_secret("secret", ""));
}

TEST(Secret, IsAnotherEachTime) {
  const std::string one = make_secret(), other = make_secret();
  EXPECT_EQ(one.size(), 48u);
  EXPECT_EQ(one.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_NE(one, other);
}

}  // namespace
}  // namespace sluice
