#include "node/changes.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <vector>

namespace sluice::node {
namespace {

constexpr Nanos kHour = Seconds(3600);

struct ChangesTest : testing::Test {
  // Appends its number when `after` returns.
  void wait(int number, uint64_t version, Nanos patience = kHour) {
    asio::co_spawn(
        io,
        [this, number, version, patience]() -> asio::awaitable<void> {
          co_await changes.after(version, patience);
          returned.push_back(number);
        },
        asio::detached);
  }
  asio::io_context io{1};
  Changes changes{io};
  std::vector<int> returned;
};

TEST_F(ChangesTest, OneThatHasHappenedIsNotWaitedFor) {
  changes.notify();
  wait(1, 0);
  io.run();
  EXPECT_EQ(returned, std::vector{1});
}

TEST_F(ChangesTest, TheNextOneResumesAllThatWait) {
  wait(1, 0);
  wait(2, 0);
  io.poll();
  EXPECT_TRUE(returned.empty());
  changes.notify();
  EXPECT_EQ(changes.version(), 1u);
  io.run();
  EXPECT_EQ(returned.size(), 2u);
}

TEST_F(ChangesTest, PatienceEnds) {
  wait(1, 0, Millis(1));
  io.run();
  EXPECT_EQ(returned, std::vector{1});
  changes.notify();  // no coroutine is left waiting
  EXPECT_EQ(changes.version(), 1u);
}

}  // namespace
}  // namespace sluice::node
