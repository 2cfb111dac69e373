// eventually(): waits for changes that send no event, such as a word that another process writes.
// If there is something to wait on (a descriptor, a pidfd, a futex), wait on that. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <string_view>

namespace sluice {

// Polls every millisecond until the condition holds; fails with `what` after at least a minute, far
// beyond what noise can take.
//
//   EXPECT_TRUE(eventually("the client's first unit of work", [&] { return units > 0; }));
template <class Condition>
testing::AssertionResult eventually(std::string_view what, Condition holds) {
  for (int look = 0; look < 60'000; ++look) {
    if (holds()) return testing::AssertionSuccess();
    usleep(1000);
  }
  return testing::AssertionFailure() << "waited in vain for " << what;
}

}  // namespace sluice
