#include "runtime/inflate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

namespace sluice::runtime {
namespace {

using testing::HasSubstr;

std::string deflated(const std::string& text, bool gzip) {
  z_stream z{};
  deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + (gzip ? 16 : 0), 8,
               Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()), 0);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

TEST(Inflate, GivesBackWhatWasCompressed) {
  for (const std::string& text : {std::string(), std::string("text"), std::string(1 << 20, 'x')})
    for (const bool gzip : {true, false}) {
      const char* encoding = gzip ? "gzip" : "deflate";
      const auto back = inflate_body(deflated(text, gzip), encoding, 1 << 20);
      ASSERT_TRUE(back.ok()) << encoding << text.size() << back.error().message;
      EXPECT_EQ(*back, text);
    }
  EXPECT_TRUE(inflatable("x-gzip"));
  EXPECT_TRUE(inflatable("GZip"));
  EXPECT_TRUE(inflatable("Deflate"));
  EXPECT_TRUE(is_identity("Identity"));
  EXPECT_FALSE(inflatable("br"));
  EXPECT_FALSE(inflatable("identity"));
}

TEST(Inflate, AGzipBodyMayHaveSeveralMembers) {
  std::string body = deflated("one ", true) + deflated("", true);
  body += deflated("two", true);
  const auto back = inflate_body(body, "gzip", 7);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, "one two");
  const auto refused = inflate_body(body, "gzip", 6);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted) << "the bound is for all of them";
}

TEST(Inflate, IsBounded) {
  const std::string bomb = deflated(std::string(8 << 20, '0'), true);
  ASSERT_LT(bomb.size(), 16u << 10);
  EXPECT_TRUE(inflate_body(bomb, "gzip", 8 << 20).ok());
  const auto refused = inflate_body(bomb, "gzip", (8 << 20) - 1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kExhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("more than the 8388607 bytes allowed"));
}

TEST(Inflate, WhatIsNotCompressedSoIsRefused) {
  const std::string good = deflated("text", true);
  struct Case {
    std::string body;
    const char *encoding, *why;
  };
  const Case cases[] = {
      {"", "gzip", "cut short"},
      {"plain text", "gzip", "broken"},
      {good, "deflate", "no deflate"},
      {deflated("text", false), "gzip", "no gzip"},
      {good.substr(0, good.size() - 3), "gzip", "cut short"},
      {good + "x", "gzip", "cut short"},
      {good + "more", "gzip", "broken"},
      {deflated("text", false) + "x", "deflate", "1 bytes follow its end"},
  };
  for (const Case& c : cases) {
    const auto refused = inflate_body(c.body, c.encoding, 100);
    ASSERT_FALSE(refused.ok()) << c.why;
    EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(refused.error().message, HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace sluice::runtime
