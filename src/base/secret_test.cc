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

}  // namespace
}  // namespace sluice
