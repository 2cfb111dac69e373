#include "store/book.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "base/random.h"

namespace sluice::node {
namespace {

using What = StoreAnswer::What;

constexpr StoreLimits kLimits{
    .capacity = 100, .per_owner = 60, .granule = 10, .references_per_client = 3};

// "1 fill 7" (client 1 is to fill tensor 7), "2 share 7", "1 done", "3 exhausted", "free 7".
std::string told(const StoreOutcome& outcome) {
  std::ostringstream out;
  for (const TensorNumber number : outcome.freed) out << "free " << number << "; ";
  for (const StoreAnswer& a : outcome.answers) {
    out << a.to << ' ';
    switch (a.what) {
      case What::kFill:
        out << "fill " << a.tensor;
        break;
      case What::kShare:
        out << "share " << a.tensor;
        break;
      case What::kCommitted:
      case What::kReleased:
        out << "done";
        break;
      case What::kRefused:
        out << (a.error.kind == ErrorKind::kInvalid     ? "invalid"
                : a.error.kind == ErrorKind::kConflict  ? "conflict"
                : a.error.kind == ErrorKind::kExhausted ? "exhausted"
                : a.error.kind == ErrorKind::kNotFound  ? "not found"
                : a.error.kind == ErrorKind::kTimeout   ? "timeout"
                                                        : "?");
    }
    out << "; ";
  }
  return out.str();
}

// One line is one event, and its outcome behind the arrow. An empty outcome: the client waits.
// Clients 1 … 9 belong to owner "f", from 10 on to "g".
//   STORE client name bytes | GET client name | COMMIT client tensor | RELEASE client tensor
//   CANCEL client | LEAVE client | FAIL client tensor
void play(const std::string& script) {
  StoreBook book(kLimits);
  std::istringstream lines(script);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    const size_t arrow = line.find("->");
    std::istringstream event(line.substr(0, arrow));
    std::string verb, name;
    StoreClient client = 0;
    uint64_t number = 0;
    event >> verb >> client;
    const std::string owner = client < 10 ? "f" : "g";
    StoreOutcome outcome;
    if (verb == "STORE") {
      event >> name >> number;
      outcome = book.store(client, owner, name, number);
    } else if (verb == "GET") {
      event >> name;
      outcome = book.get(client, owner, name);
    } else if (verb == "COMMIT") {
      event >> number;
      outcome = book.commit(client, number);
    } else if (verb == "RELEASE") {
      event >> number;
      outcome = book.release(client, number);
    } else if (verb == "FAIL") {
      event >> number;
      outcome = book.fail(client, number, {ErrorKind::kExhausted, "no memory"});
    } else if (verb == "CANCEL") {
      outcome = book.cancel(client);
    } else {
      ASSERT_EQ(verb, "LEAVE");
      outcome = book.leave(client);
    }
    std::string wanted = line.substr(arrow + 2);
    wanted.erase(0, wanted.find_first_not_of(' '));
    std::string got = told(outcome);
    got = got.substr(0, got.empty() ? 0 : got.size() - 2);
    ASSERT_EQ(got, wanted) << line;
  }
}

TEST(StoreBook, TheFirstFillsOthersShareTheLastFrees) {
  play(R"(
    STORE 1 w 10   -> 1 fill 1
    COMMIT 1 1     -> 1 done
    GET 2 w        -> 2 share 1
    STORE 3 w 10   -> 3 share 1
    RELEASE 1 1    -> 1 done
    LEAVE 2        ->
    RELEASE 3 1    -> free 1; 3 done
    GET 4 w        -> 4 not found
    STORE 4 w 10   -> 4 fill 2
  )");
}

TEST(StoreBook, WhoComesWhileItIsFilledWaits) {
  play(R"(
    STORE 1 w 10   -> 1 fill 1
    STORE 2 w 10   ->
    GET 3 w        ->
    COMMIT 1 1     -> 1 done; 2 share 1; 3 share 1
    LEAVE 1        ->
    LEAVE 2        ->
    LEAVE 3        -> free 1
  )");
}

TEST(StoreBook, AStorerThatDiesIsFollowedByTheFirstWhoWaitsToStore) {
  play(R"(
    STORE 1 w 60   -> 1 fill 1
    GET 2 w        ->
    STORE 3 w 60   ->
    STORE 4 w 60   ->
    LEAVE 1        -> free 1; 3 fill 2
    RELEASE 3 2    -> free 2; 3 done; 4 fill 3
    COMMIT 4 3     -> 4 done; 2 share 3
  )");
}

TEST(StoreBook, WhereThereIsNoMemoryItIsAsIfTheStorerGaveUp) {
  play(R"(
    STORE 1 w 60   -> 1 fill 1
    STORE 2 w 60   ->
    FAIL 1 1       -> free 1; 1 exhausted; 2 fill 2
    FAIL 2 2       -> free 2; 2 exhausted
    STORE 1 w 60   -> 1 fill 3
  )");
}

TEST(StoreBook, WithoutASuccessorWhoOnlyWantedItLearnsThatItIsNotThere) {
  play(R"(
    STORE 1 w 10   -> 1 fill 1
    GET 2 w        ->
    LEAVE 1        -> free 1; 2 not found
    GET 2 w        -> 2 not found
  )");
}

TEST(StoreBook, WhoWaitsMayStopOrDie) {
  play(R"(
    STORE 1 w 10   -> 1 fill 1
    STORE 2 w 10   ->
    STORE 3 w 10   ->
    GET 4 w        ->
    CANCEL 2       -> 2 timeout
    CANCEL 2       ->
    LEAVE 3        ->
    LEAVE 1        -> free 1; 4 not found
  )");
}

TEST(StoreBook, SizesAndLimits) {
  play(R"(
    STORE 1 a 0                     -> 1 invalid
    STORE 1 a 61                    -> 1 invalid
    STORE 1 a 18446744073709551615  -> 1 invalid
    STORE 1 a 41                    -> 1 fill 1
    STORE 2 a 42                    -> 2 conflict
    STORE 2 b 11                    -> 2 exhausted
    STORE 2 b 10                    -> 2 fill 2
    STORE 10 a 41                   -> 10 exhausted
    STORE 10 a 40                   -> 10 fill 3
    LEAVE 10                        -> free 3
    STORE 10 a 31                   -> 10 fill 4
    STORE 11 b 10                   -> 11 exhausted
    GET 2 b                         ->
  )");
}

TEST(StoreBook, TheSameNameOfAnotherOwnerIsAnotherTensor) {
  play(R"(
    STORE 1 w 10   -> 1 fill 1
    COMMIT 1 1     -> 1 done
    GET 10 w       -> 10 not found
    STORE 10 w 20  -> 10 fill 2
    COMMIT 1 2     -> 1 not found
    COMMIT 10 1    -> 10 not found
    RELEASE 10 1   -> 10 not found
    RELEASE 1 2    -> 1 not found
    COMMIT 10 99   -> 10 not found
  )");
}

TEST(StoreBook, AConnectionHasOnlySoManyReferencesEachGivenBackOnce) {
  play(R"(
    STORE 1 w 10   -> 1 fill 1
    COMMIT 1 1     -> 1 done
    COMMIT 1 1     -> 1 not found
    GET 1 w        -> 1 share 1
    GET 1 w        -> 1 share 1
    GET 1 w        -> 1 exhausted
    RELEASE 1 1    -> 1 done
    GET 1 w        -> 1 share 1
    RELEASE 1 1    -> 1 done
    RELEASE 1 1    -> 1 done
    RELEASE 1 1    -> free 1; 1 done
    RELEASE 1 1    -> 1 not found
  )");
}

// Random clients that follow the protocol and die anywhere. Each question is answered once, bytes
// add up, no client waits for ever, and nothing is left when all have gone.
TEST(StoreBook, UnderRandomClientsAllIsAnsweredOnceAndAllIsFreed) {
  constexpr uint64_t kSeed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  for (int round = 0; round < 200; ++round) {
    StoreBook book(kLimits);
    std::set<StoreClient> asking;
    std::map<StoreClient, std::multiset<TensorNumber>> has;
    std::set<TensorNumber> freed;
    const auto hear = [&](const StoreOutcome& outcome) {
      for (const TensorNumber number : outcome.freed) {
        EXPECT_TRUE(freed.insert(number).second) << "freed twice";
        for (const auto& [client, numbers] : has) EXPECT_FALSE(numbers.contains(number));
      }
      for (const StoreAnswer& a : outcome.answers) {
        EXPECT_EQ(asking.erase(a.to), 1u) << "an answer to " << a.to << " that did not ask";
        if (a.what != What::kFill && a.what != What::kShare) continue;
        EXPECT_FALSE(freed.contains(a.tensor)) << "a tensor that is freed";
        has[a.to].insert(a.tensor);
      }
    };
    for (int step = 0; step < 300; ++step) {
      const StoreClient client = random.below(12);
      const std::string owner = client % 2 == 0 ? "f" : "g";
      const std::string name(1, static_cast<char>('a' + random.below(3)));
      auto& mine = has[client];
      const uint64_t choice = random.below(10);
      if (choice == 0) {
        asking.erase(client);
        mine.clear();
        hear(book.leave(client));
      } else if (asking.contains(client)) {
        if (choice == 1) hear(book.cancel(client));
      } else if (choice < 4) {
        asking.insert(client);
        hear(book.store(client, owner, name, 5 + 10 * random.below(3)));
      } else if (choice < 6) {
        asking.insert(client);
        hear(book.get(client, owner, name));
      } else if (!mine.empty()) {
        const TensorNumber number =
            *std::next(mine.begin(), static_cast<long>(random.below(mine.size())));
        asking.insert(client);
        if (book.fills(client, number) && choice < 9) {
          hear(book.commit(client, number));
        } else {
          mine.erase(mine.find(number));
          hear(book.release(client, number));
        }
      }
      for (const StoreClient waiter : asking) ASSERT_TRUE(book.waits(waiter)) << "left unanswered";
      ASSERT_LE(book.used(), kLimits.capacity);
    }
    for (StoreClient client = 0; client < 12; ++client) {
      asking.erase(client);
      has.erase(client);
      hear(book.leave(client));
    }
    EXPECT_EQ(book.used(), 0u);
    EXPECT_EQ(book.tensors(), 0u);
    if (testing::Test::HasFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace sluice::node
