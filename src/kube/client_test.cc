// The client of the API server: calls, informers and leases, against a stand-in. The real server is
// tested in tests/kube.
#include "kube/client.h"

#include <gtest/gtest.h>

#include <future>

#include "kube/informer.h"
#include "kube/lease.h"
#include "tests/support/eventually.h"
#include "tests/support/kube_client.h"

namespace sluice::kube {
namespace {

using nlohmann::json;

constexpr const char* kThings = "/apis/test.dev/v1/things";

struct Thing {
  std::string name;
  int size = 0;

  static Result<Thing> parse(const json& o) {
    const json size = o.value("/spec/size"_json_pointer, json());
    if (!size.is_number()) return Error{ErrorKind::kInvalid, "spec.size is no number"};
    (void)o.value("/spec/tag"_json_pointer, "");  // throws where it is no text
    return Thing{o["metadata"]["name"], size.get<int>()};
  }
};

json thing(const std::string& name, int size) {
  return {{"metadata", {{"namespace", "default"}, {"name", name}}}, {"spec", {{"size", size}}}};
}

class KubeTest : public KubeClientTest {
 protected:
  Result<json> call(Call c) { return wait(client_->call(std::move(c))); }
};

TEST_F(KubeTest, CallsHaveTheServersAnswerOrItsMessage) {
  server_.put(kThings, thing("a", 1));
  const std::string at = "/apis/test.dev/v1/namespaces/default/things";
  EXPECT_EQ((*call(Call(at + "/a")))["spec"]["size"], 1);

  const auto missing = call(Call(at + "/b"));
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(missing.error().message.find("b not found"), std::string::npos);

  const auto again = call(Call(verb::post, at, thing("a", 2)));
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kConflict);

  json stale = *call(Call(at + "/a"));
  ASSERT_TRUE(call(Call(verb::patch, at + "/a", {{"spec", {{"size", 3}}}}, kMergePatch)).ok());
  EXPECT_EQ(call(Call(verb::put, at + "/a", stale)).error().kind, ErrorKind::kConflict);
}

TEST_F(KubeTest, ATextThatIsCutWithinACharacterIsWritten) {
  json cut = thing("a", 1);
  cut["spec"]["message"] = std::string("it ends \xE2\x80");
  const auto made = call(Call(verb::post, "/apis/test.dev/v1/namespaces/default/things", cut));
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ((*made)["spec"]["message"], "it ends \uFFFD");
}

TEST_F(KubeTest, AWaiterHasItsCoroutinesException) {
  const auto fails = []() -> asio::awaitable<int> {
    throw std::runtime_error("broken");
    co_return 0;
  };
  EXPECT_THROW(wait(fails()), std::runtime_error);
}

TEST(KubeSpawn, AnExceptionEndsTheProcess) {
  EXPECT_DEATH(
      {
        asio::io_context io;
        kube::spawn(io, []() -> asio::awaitable<void> {
          throw std::runtime_error("broken");
          co_return;
        }());
        io.run();
      },
      "");
}

TEST_F(KubeTest, AnAbsentServerIsUnavailable) {
  Config nowhere{.server = {.host = "127.0.0.1", .port = 1}, .tls = false};
  const auto client = Client::make(io_, nowhere).value();
  const auto answer = wait(client->send(Call("/api")));
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::kUnavailable);
}

class InformerTest : public KubeTest {
 protected:
  void begin() {
    spawn(things_.run());
    ASSERT_TRUE(eventually("the first list", [&] { return things_.synced(); }));
  }
  // "a=1 b=2"
  std::string copy() const {
    std::string out;
    for (const auto& [key, t] : things_.all())
      out += (out.empty() ? "" : " ") + key.name + "=" + std::to_string(t->size);
    return out;
  }
  testing::AssertionResult becomes(const std::string& expected) {
    return eventually(expected, [&] { return copy() == expected; }) << ", there is " << copy();
  }

  Informer<Thing> things_{*client_, kThings};
};

TEST_F(InformerTest, AnObjectWithAFieldOfAnotherTypeIsLeftOut) {
  server_.put(kThings, thing("a", 1));
  json odd = thing("b", 2);
  odd["spec"]["tag"] = 5;
  server_.put(kThings, odd);
  begin();
  EXPECT_EQ(copy(), "a=1");
  server_.put(kThings, thing("c", 3));
  EXPECT_TRUE(becomes("a=1 c=3"));
  odd["spec"]["tag"] = "text";
  server_.put(kThings, odd);
  EXPECT_TRUE(becomes("a=1 b=2 c=3"));
}

TEST_F(InformerTest, FollowsWhatOthersChange) {
  server_.put(kThings, thing("a", 1));
  begin();
  EXPECT_EQ(copy(), "a=1");
  server_.put(kThings, thing("b", 2));
  EXPECT_TRUE(becomes("a=1 b=2"));
  server_.put(kThings, thing("a", 5));
  server_.remove(kThings, "default", "b");
  EXPECT_TRUE(becomes("a=5"));
}

TEST_F(InformerTest, ReadsAListInPages) {
  for (int i = 0; i < 1234; ++i) server_.put(kThings, thing("t" + std::to_string(i), i));
  begin();
  EXPECT_EQ(things_.all().size(), 1234u);
}

TEST_F(InformerTest, GoesOnWhereAWatchBroke) {
  server_.put(kThings, thing("a", 1));
  begin();
  for (int i = 2; i < 6; ++i) {
    server_.break_watches();
    server_.put(kThings, thing("a", i));
    EXPECT_TRUE(becomes("a=" + std::to_string(i)));
  }
  int lists = 0;
  for (const std::string& c : server_.calls()) lists += c == "GET " + std::string(kThings);
  EXPECT_GE(lists, 5) << "a watch for each break";
}

// What was removed while nothing was watched is missing in the new list.
TEST_F(InformerTest, BeginsAgainFromAListWhenItsVersionIsTooOld) {
  server_.put(kThings, thing("a", 1));
  server_.put(kThings, thing("b", 2));
  begin();
  server_.refuse([](const std::string&, const std::string&) { return 500; });
  server_.break_watches();
  server_.remove(kThings, "default", "b");
  server_.put(kThings, thing("c", 3));
  server_.forget_history();
  server_.refuse({});
  EXPECT_TRUE(becomes("a=1 c=3"));
}

TEST_F(InformerTest, KeepsItsCopyWhileTheServerIsAway) {
  server_.put(kThings, thing("a", 1));
  begin();
  server_.refuse([](const std::string&, const std::string&) { return 503; });
  server_.break_watches();
  server_.put(kThings, thing("b", 2));
  EXPECT_EQ(copy(), "a=1");
  EXPECT_TRUE(eventually("it knows that", [&] { return !things_.current(); }));
  server_.refuse({});
  EXPECT_TRUE(becomes("a=1 b=2"));
  EXPECT_TRUE(eventually("and that it is back", [&] { return things_.current(); }));
}

TEST_F(InformerTest, AnObjectThatCannotBeReadIsNotInTheCopy) {
  server_.put(kThings, thing("a", 1));
  begin();
  server_.put(kThings, {{"metadata", {{"namespace", "default"}, {"name", "a"}}},
                        {"spec", {{"size", "large"}}}});
  EXPECT_TRUE(becomes(""));
  server_.put(kThings, thing("a", 2));
  EXPECT_TRUE(becomes("a=2"));
}

class LeaseTest : public KubeTest {
 protected:
  struct Candidate {
    Candidate(Client& client, const std::string& name, const Clock& clock)
        : lease(
              client, {.space = "system", .name = "loop", .identity = name, .retry = Millis(2)},
              clock, [this] { ++held; }, [this] { ++lost; }) {}
    std::atomic<int> held = 0, lost = 0;
    Lease lease;
  };
  void begin(Candidate& c) { spawn(c.lease.run()); }

  ManualClock clock_;
  Candidate a_{*client_, "a", clock_}, b_{*client_, "b", clock_};
};

TEST_F(LeaseTest, OneHoldsItAndTheOtherTakesOverAfterItsDuration) {
  begin(a_);
  ASSERT_TRUE(eventually("a holds it", [&] { return a_.held == 1; }));
  begin(b_);
  // a is cut off: no call is answered for it, and its deadline passes first.
  ASSERT_TRUE(eventually("b has seen it", [&] { return server_.calls().size() > 8; }));
  EXPECT_FALSE(b_.lease.holds());
  EXPECT_TRUE(a_.lease.holds());
  server_.set_there(false);
  clock_.advance(Seconds(11));
  EXPECT_FALSE(a_.lease.holds()) << "at its deadline, whatever the server does";
}

TEST_F(LeaseTest, ItIsLostAtItsDeadlineWhileACallWaitsForItsAnswer) {
  begin(a_);
  ASSERT_TRUE(eventually("a holds it", [&] { return a_.held == 1; }));
  std::atomic<bool> asked = false;
  std::promise<void> answer;
  server_.refuse([&, answered = answer.get_future().share()](auto&&...) {
    asked = true;
    answered.wait();
    return 503;
  });
  EXPECT_TRUE(eventually("a call waits", [&] { return asked.load(); }));
  clock_.advance(Seconds(11));
  EXPECT_TRUE(eventually("a has lost it", [&] { return a_.lost == 1; }));
  answer.set_value();
  server_.refuse({});
}

TEST_F(LeaseTest, GivenUpItIsFreeAtOnce) {
  begin(a_);
  ASSERT_TRUE(eventually("a holds it", [&] { return a_.held == 1; }));
  wait([this]() -> asio::awaitable<int> {
    co_await a_.lease.release();
    co_return 0;
  }());
  EXPECT_FALSE(a_.lease.holds());
}

TEST_F(LeaseTest, AnotherThatHasTakenItEndsThis) {
  begin(a_);
  ASSERT_TRUE(eventually("a holds it", [&] { return a_.held == 1; }));
  server_.put("/apis/coordination.k8s.io/v1/leases",
              {{"metadata", {{"namespace", "system"}, {"name", "loop"}}},
               {"spec", {{"holderIdentity", "c"}}}});
  EXPECT_TRUE(eventually("a has lost it", [&] { return a_.lost == 1; }));
  EXPECT_FALSE(a_.lease.holds());
  clock_.advance(Seconds(16));
  EXPECT_TRUE(eventually("c renews no more", [&] { return a_.held == 2; }));
}

}  // namespace
}  // namespace sluice::kube
