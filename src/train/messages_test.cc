#include "train/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace sluice::train {
namespace {

using testing::HasSubstr;

TEST(Messages, AreReadAsWritten) {
  const WorkerMessage said[] = {
      Hello{"j", "k", "w", 1, 3, 40},
      Loaded{100, 4},
      Stopped{3, 41, "lost"},
      Progress{3, {41, 2, 7}, 0.5, 64, 0.01, 0.002, 1e4, 0.1, 120, "full"},
      Profiled{3, 64, 5, {4e6, 100}, {0.25, 0.5}, {0.125, 0.25}, 0.75, 0.0625},
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

// A profile is of a user's program: what no step can have been is refused.
TEST(Messages, AProfileThatNoStepHasIsRefused) {
  const Profiled good{1, 8, 5, {4, 4}, {0.1, 0.2}, {0, 0}, 0.3, 0};
  const std::pair<std::function<void(Profiled&)>, const char*> cases[] = {
      {[](Profiled& p) { p.bytes = {}, p.ready_seconds = {}, p.sum_seconds = {}; }, "each bucket"},
      {[](Profiled& p) { p.sum_seconds.pop_back(); }, "each bucket"},
      {[](Profiled& p) { p.bytes.assign(kMostProfiledBuckets + 1, 1); }, "bytes: is no list"},
      {[](Profiled& p) { p.bytes[0] = -4; }, "bytes: has no number"},
      {[](Profiled& p) { p.sum_seconds[1] = std::nan(""); }, "sum_seconds: has no number"},
      {[](Profiled& p) { p.ready_seconds[0] = 0.25; }, "ready_seconds: descends"},
      {[](Profiled& p) { p.compute_seconds = 0.15; }, "compute_seconds"},
      {[](Profiled& p) { p.compute_seconds = std::nan(""); }, "compute_seconds"},
      {[](Profiled& p) { p.optimizer_seconds = -1; }, "optimizer_seconds"},
      {[](Profiled& p) { p.batch = -8; }, "batch"}};
  EXPECT_TRUE(worker_message_from(to_line(good)).ok());
  for (const auto& [spoil, why] : cases) {
    Profiled bad = good;
    spoil(bad);
    const auto read = worker_message_from(to_line(bad));
    ASSERT_FALSE(read.ok()) << to_line(bad);
    EXPECT_THAT(read.error().message, HasSubstr(why));
  }
  EXPECT_FALSE(worker_message_from(R"({"kind":"profiled","bytes":{"a":1}})").ok());
  EXPECT_FALSE(worker_message_from(R"({"kind":"profiled","bytes":[1e999]})").ok());
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
