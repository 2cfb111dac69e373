#include "train/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sluice::train {
namespace {

using testing::HasSubstr;

TEST(Messages, AreReadAsWritten) {
  const WorkerMessage said[] = {
      Hello{"j", "k", "w", 1, 3, 40},
      Loaded{100, 4},
      Stopped{3, 41, "lost"},
      Progress{3, {41, 2, 7}, 0.5, 64, 0.01, 0.002, 1e4, 0.1, 120, "full"},
      Saved{{41, 2, 7}, "/c", 12, 0.5},
      Leaving{},
      Finished{41, "/m.pt"},
      Failed{"a \"quoted\" line", true},
      StoreSet{"1/k", "v"},
      StoreGet{"1/k"},
      Pong{}};
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
                                      Ping{},
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

TEST(Messages, AWorkersTextCommandsNoTerminal) {
  const std::string hostile = "\x1b[2J\x1b]0;owned\x07\xC2\x9B\n2026-11-26 stop default/other";
  const std::string shown = "\uFFFD[2J\uFFFD]0;owned\uFFFD\uFFFD 2026-11-26 stop default/other";
  const auto read = [](const std::string& fields) {
    const auto message = worker_message_from("{" + fields + "}");
    EXPECT_TRUE(message.ok()) << fields << message.error().message;
    return message.ok() ? *message : WorkerMessage();
  };
  const std::string text =
      R"("\u001b[2J\u001b]0;owned\u0007\u009b\n2026-11-26 stop default/other")";
  EXPECT_EQ(std::get<Failed>(read(R"("kind":"failed","error":)" + text)).error, shown);
  EXPECT_EQ(std::get<Progress>(read(R"("kind":"progress","trouble":)" + text)).trouble, shown);
  EXPECT_EQ(std::get<Hello>(read(R"("kind":"hello","worker":)" + text)).worker, shown);
  EXPECT_EQ(std::get<Saved>(read(R"("kind":"saved","path":)" + text)).path, shown);
  EXPECT_EQ(std::get<Finished>(read(R"("kind":"finished","model":)" + text)).model, shown);
  // What workers tell each other stays as it is.
  const StoreSet set = std::get<StoreSet>(read(R"("kind":"set","key":"k","value":)" + text));
  EXPECT_EQ(set.value, hostile);
}

// A loss that is not a number leaves as 0, not as a text that no reader takes.
TEST(Messages, NumbersThatAreNoneCanBeRead) {
  EXPECT_TRUE(worker_message_from(to_line(Progress{.loss = std::nan("")})).ok());
}

}  // namespace
}  // namespace sluice::train
