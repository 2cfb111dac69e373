// Servers between the virtual clusters of inference and training, over whole decisions.
#include "policy/loans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/job_cluster.h"

namespace sluice::policy {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Nodes of two devices each: d0 d1, d2 d3, …, first those of inference.
class LoanCluster : public JobCluster {
 public:
  LoanCluster(int inference, int training) : JobCluster(2 * (inference + training)) {
    loans.idle = Seconds(10);
    for (int n = 0; n < inference + training; ++n) {
      Node node{.name = "n" + std::to_string(n)};
      node.labels[std::string(kVirtualCluster)] = n < inference ? kForInference : kForTraining;
      for (const int d : {2 * n, 2 * n + 1}) {
        node.devices.push_back(now.devices[static_cast<size_t>(d)].id);
        now.devices[static_cast<size_t>(d)].node = node.name;
      }
      now.nodes.push_back(node);
    }
    function("f", Millis(100), Millis(40));
  }
  // Ticks for that long; returns what was lent and returned: "lent n1; reclaimed n1".
  std::string play(Nanos length) {
    std::string out;
    for (Nanos t{0}; t < length; t += Seconds(2))
      for (const Action& a : tick())
        if (const auto* loan = std::get_if<Loan>(&a.what))
          out += (out.empty() ? "" : "; ") + a.reason.rule.substr(7) + " " + loan->node;
    return out;
  }
  std::string lent() const {
    std::string out;
    const auto memory = memories.find(kLoanMemory);
    if (memory == memories.end()) return out;
    for (const std::string& node : lent_nodes(memory->second))
      out += (out.empty() ? "" : " ") + node;
    return out;
  }
};

TEST(Loans, EachKindHasItsOwnServers) {
  LoanCluster c(1, 1);
  c.loans.reclaim = ReclaimRule::kNone;
  c.rate("f", 200);
  c.job("j");
  c.play(Seconds(60));
  EXPECT_EQ(c.workers("f").substr(0, 2), "d0");
  EXPECT_THAT(c.workers("f"), Not(HasSubstr("d2")));
  EXPECT_EQ(c.workers("j"), "d2 d3");
  EXPECT_EQ(c.lent(), "");
}

TEST(Loans, AServerThatInferenceDoesNotUseGoesToTraining) {
  LoanCluster c(2, 1);
  c.rate("f", 5);
  c.tick();
  const std::string used = c.workers("f");
  c.job("j");
  EXPECT_EQ(c.play(Seconds(8)), "") << "not yet idle for long enough";
  const std::string other = used < "d2" ? "n1" : "n0";
  EXPECT_EQ(c.play(Seconds(6)), "lent " + other);
  c.play(Seconds(60));
  EXPECT_EQ(c.instances("j").size(), 4u);
  EXPECT_EQ(c.workers("f"), used);
  EXPECT_EQ(c.lent(), other);
}

TEST(Loans, ItGoesBackWhenInferenceNeedsIt) {
  LoanCluster c(2, 1);
  c.rate("f", 5);
  c.job("j");
  c.play(Seconds(80));
  ASSERT_EQ(c.instances("j").size(), 4u);
  c.rate("f", 95);  // three devices
  const std::string lent = c.lent();
  EXPECT_EQ(c.play(Seconds(2)), "reclaimed " + lent) << "at once";
  EXPECT_THAT(c.rules("j"), testing::Contains("server-reclaimed")) << "its workers leave, and why";
  c.play(Seconds(40));
  EXPECT_GE(c.capacity("f"), 95 * 0.99);
  EXPECT_EQ(c.workers("j"), "d4 d5");
  EXPECT_EQ(c.lent(), "");
}

TEST(Loans, SpareServersStay) {
  LoanCluster c(3, 1);
  c.loans.spare = 1;
  c.rate("f", 5);
  c.job("j");
  c.play(Seconds(60));
  EXPECT_EQ(c.lent().size(), 2u) << c.lent() << ": one of two";
  c.rate("f", 70);  // of two servers
  c.play(Seconds(20));
  EXPECT_EQ(c.lent(), "") << "none is spare any more";
}

TEST(Loans, WithoutAJobAllIsGivenBack) {
  LoanCluster c(2, 1);
  c.rate("f", 5);
  c.job("j");
  c.play(Seconds(60));
  ASSERT_NE(c.lent(), "");
  c.state("j").phase = JobPhase::kFinished;
  EXPECT_THAT(c.play(Seconds(4)), HasSubstr("returned "));
  EXPECT_EQ(c.play(Seconds(60)), "") << "and stays";
}

TEST(Loans, EveryRuleGivesBackEnough) {
  for (const auto rule : {ReclaimRule::kFapes, ReclaimRule::kLyra, ReclaimRule::kOneWay}) {
    LoanCluster c(4, 0);
    c.loans.reclaim = rule;
    c.rate("f", 5);
    c.job("a"), c.job("b");
    c.play(Seconds(80));
    EXPECT_EQ(c.lent().size(), 8u) << c.lent() << ": three servers";
    c.rate("f", 150);
    c.play(Seconds(60));
    EXPECT_GE(c.capacity("f"), 150 * 0.99) << reclaim_rules()[static_cast<size_t>(rule)];
  }
}

TEST(Loans, WhatIsForgottenIsNotLent) {
  LoanCluster c(2, 1);
  c.rate("f", 5);
  c.job("j");
  c.play(Seconds(60));
  ASSERT_NE(c.lent(), "");
  c.memories.clear();
  c.play(Seconds(4));
  EXPECT_EQ(c.workers("j"), "d4 d5") << "its workers left the server of inference";
}

TEST(Loans, OtherNodesAreForBoth) {
  LoanCluster c(1, 1);
  for (Node& n : c.now.nodes) n.labels.clear();
  c.rate("f", 5);
  c.job("j");
  EXPECT_EQ(c.play(Seconds(60)), "");
  EXPECT_GE(c.instances("j").size(), 3u) << "of both nodes";
  EXPECT_FALSE(c.memories.contains(kLoanMemory));
}

}  // namespace
}  // namespace sluice::policy
