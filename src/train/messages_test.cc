#include "train/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sluice::train {
namespace {

using testing::HasSubstr;

TEST(Messages, AreReadAsWritten) {
  const WorkerMessage said[] = {Hello{"j", "k", "w", 1, 3, 40},
                                Loaded{100, 4},
                                Stopped{3, 41, "lost"},
                                Progress{3, {41, 2, 7}, 0.5, 64, 0.01, 0.002, 1e4, 120, "full"},
                                Saved{{41, 2, 7}, "/c", 12, 0.5},
                                Leaving{},
                                Finished{41, "/m.pt"},
                                Failed{"a \"quoted\"\nline", true},
                                StoreSet{"1/k", "v"},
                                StoreGet{"1/k"}};
  for (const WorkerMessage& m : said) {
    const std::string line = to_line(m);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    const auto read = worker_message_from(line);
    ASSERT_TRUE(read.ok()) << line << read.error().message;
    EXPECT_EQ(to_line(*read), line);
  }
  const ControllerMessage orders[] = {Welcome{5, "/m", "/d", "/a", 3, 7, 64, 0.1, 0.9, 1},
                                      Form{3, 1, 2, 64, true, "/c"},
                                      Halt{3},
                                      Adapt{128},
                                      Leave{true},
                                      StoreValue{"1/k", "v"},
                                      Refused{"no"}};
  for (const ControllerMessage& m : orders) {
    const auto read = controller_message_from(to_line(m));
    ASSERT_TRUE(read.ok()) << to_line(m) << read.error().message;
    EXPECT_EQ(to_line(*read), to_line(m));
  }
}

TEST(Messages, AFaultIsNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", ""},
      {"[]", "message"},
      {R"({"kind":"dance"})", "message.kind: 'dance' is not known"},
      {R"({"kind":"form"})", "message.kind: 'form' is not known"},  // a controller's
      {R"({"kind":"loaded","samples":"many"})", "message.samples"},
      {R"({"kind":"progress","batch":-1})", "message.batch"},
      {R"({"kind":"stopped","generation":1e300})", "message.generation"}};
  for (const auto& [line, why] : cases) {
    const auto read = worker_message_from(line);
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_THAT(read.error().message, HasSubstr(why));
  }
}

// A loss that is not a number leaves as 0, not as a text that no reader takes.
TEST(Messages, NumbersThatAreNoneCanBeRead) {
  EXPECT_TRUE(worker_message_from(to_line(Progress{.loss = std::nan("")})).ok());
}

}  // namespace
}  // namespace sluice::train
