#include "node/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace sluice::node {
namespace {

struct ChannelTest : testing::Test {
  asio::io_context io{1};
  SocketPair pair = *make_socket_pair();
  Fd theirs = std::move(pair.theirs);
  Channel channel{io, std::move(pair.ours)};
  std::vector<std::string> heard;  // in the order in which the waits ended

  void listen(const std::string& name, Nanos patience = Seconds(60)) {
    asio::co_spawn(
        io,
        [this, name, patience]() -> asio::awaitable<void> {
          const Result<wire::Packet> p = co_await channel.receive(patience);
          heard.push_back(name + ": " + (p.ok() ? text(*p) : p.error().message));
        },
        asio::detached);
  }
  static std::string text(const wire::Packet& p) {
    return std::to_string(wire::message_of<wire::Ready>(p)->load_ns);
  }
  void answer(uint64_t number) {
    ASSERT_TRUE(wire::send_message(theirs.get(), wire::Ready{.load_ns = number}).ok());
  }
  void run_until(size_t count) {
    while (heard.size() < count) io.run_one_for(Seconds(10));
  }
};

TEST_F(ChannelTest, AnswersGoToWaitersInTheirOrder) {
  answer(1);  // before anybody waits
  listen("a");
  listen("b");
  run_until(1);
  answer(2);
  answer(3);
  listen("c");
  run_until(3);
  EXPECT_EQ(heard, (std::vector<std::string>{"a: 1", "b: 2", "c: 3"}));
}

TEST_F(ChannelTest, WhenThePeerDiesEverybodyIsTold) {
  listen("a");
  listen("b");
  io.poll();
  theirs.reset();
  run_until(2);
  EXPECT_EQ(heard[0], "a: the other side closed the socket");
  EXPECT_FALSE(channel.open());
  EXPECT_EQ(channel.send(wire::Drain{}).error().kind, ErrorKind::kUnavailable);
}

TEST_F(ChannelTest, AnAnswerThatNeverComesIsATimeoutAndTheEnd) {
  listen("a", Millis(1));
  listen("b");
  run_until(2);
  EXPECT_THAT(heard, testing::UnorderedElementsAre("a: no answer within 0 s",
                                                   "b: the other side did not answer in time"));
  EXPECT_FALSE(channel.open());
}

TEST_F(ChannelTest, AStoppedPeerDoesNotStopUs) {
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent.ok(); ++i) sent = channel.send(wire::StartTemplate{});
  EXPECT_FALSE(sent.ok());
}

TEST_F(ChannelTest, ClosingEndsTheWaits) {
  listen("a");
  io.poll();
  channel = Channel();
  run_until(1);
  EXPECT_EQ(heard[0], "a: the channel was closed");
}

}  // namespace
}  // namespace sluice::node
