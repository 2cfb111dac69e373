#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace sluice {
namespace {

TEST(Printable, TextStaysAsItIs) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("ValueError: größer als 3 €, 🦀"),
            "ValueError: größer als 3 €, 🦀");
}

TEST(Printable, NothingCommandsATerminal) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"\x1b[2J\x1b]0;title\x07", "\uFFFD[2J\uFFFD]0;title\uFFFD"},
      {"\xC2\x9B"
       "31m",
       "\uFFFD31m"},                     // the same as ESC [, as one character
      {"\x9B", "\uFFFD"},                // and as one byte, which is no UTF-8
      {"a\nb\r\tc\u2028d", "a b  c d"},  // no line that looks like ours
      {"\u202Etxt.exe\u2066", "\uFFFDtxt.exe\uFFFD"},
      {"\xC0\x9B\xED\xA0\x80\xF5", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"},
      {std::string_view("a\0b", 3), "a\uFFFDb"},
      {"\x7F\b", "\uFFFD\uFFFD"}};
  for (const auto& [text, shown] : cases) EXPECT_EQ(printable(text), shown);
}

TEST(Printable, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc…");
  EXPECT_EQ(printable("ääää", 7), "ää…");
  EXPECT_LE(printable(std::string(100'000, '\x1b')).size(), kMostOfAProgramsText);
}

TEST(Printable, WhatItReturnsIsPrintable) {
  constexpr uint64_t kSeed = 5;
  Random random(kSeed);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (uint64_t n = random.below(40); n > 0; --n)
      text += static_cast<char>(random.below(3) == 0 ? 0xC0 + random.below(64) : random.below(256));
    const std::string once = printable(text, 30);
    ASSERT_EQ(printable(once, 30), once) << "seed " << kSeed;
    for (const char c : once) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  }
}

}  // namespace
}  // namespace sluice
