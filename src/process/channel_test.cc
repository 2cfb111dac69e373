#include "process/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "tests/support/burner.h"

namespace sluice::node {
namespace {

struct ChannelTest : testing::Test {
  asio::io_context io{1};
  SocketPair pair = *make_socket_pair();
  Fd theirs = std::move(pair.theirs);
  const Fd same_socket{fcntl(pair.ours.get(), F_DUPFD_CLOEXEC, 0)};
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
  answer(1);  // before any wait
  listen("a");
  listen("b");
  run_until(1);
  answer(2);
  answer(3);
  listen("c");
  run_until(3);
  EXPECT_EQ(heard, (std::vector<std::string>{"a: 1", "b: 2", "c: 3"}));
}

// Asio at times reports a channel as ready that is not.
TEST_F(ChannelTest, AReadinessThatIsNoneIsWaitedOut) {
  listen("a");
  // Both are ready at once, and the first takes the other's message.
  asio::posix::stream_descriptor thief(io, eventfd(1, EFD_CLOEXEC));
  std::optional<Result<wire::Packet>> stolen;
  thief.async_wait(thief.wait_read,
                   [&](auto) { stolen = wire::receive_packet(same_socket.get()); });
  answer(1);
  while (!stolen) io.run_one_for(Seconds(10));
  ASSERT_TRUE(stolen->ok());
  io.poll();
  answer(2);
  run_until(1);
  EXPECT_EQ(heard[0], "a: 2");
}

// An event of a closed descriptor, delivered to the next one that is opened.
TEST(WaitForEnd, IsNotDeceived) {
  asio::io_context io{1};
  Burner living;
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, living.pid(), 0)));
  bool over = false, opened = false;
  asio::posix::stream_descriptor first(io, eventfd(0, EFD_CLOEXEC));
  auto second = std::make_unique<asio::posix::stream_descriptor>(io, eventfd(0, EFD_CLOEXEC));
  second->async_wait(second->wait_read, [](auto) {});
  first.async_wait(first.wait_read, [&](auto) {
    second.reset();
    asio::co_spawn(io, wait_for_end(io, pidfd.get()), [&](std::exception_ptr) { over = true; });
    opened = true;
  });
  io.poll();
  eventfd_write(first.native_handle(), 1);
  eventfd_write(second->native_handle(), 1);
  while (!opened) io.run_one_for(Seconds(10));
  io.poll();
  EXPECT_FALSE(over);
  living.end();
  while (!over) io.run_one_for(Seconds(10));
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
