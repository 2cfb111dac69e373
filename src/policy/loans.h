// loans: the servers that inference lends to training and takes back (FaPES, SoCC '24, §3.4). Pure.
//
// A node with the label "virtual-cluster" is kept for functions of one kind, inference or training.
// To those of the other kind all of its devices look cordoned: nothing of theirs starts there, and
// what they have there leaves. A node without that label is for both.
//
//   lend     a node of inference that has had no instance of it for `idle`, while some job wants
//            workers and more than `spare` such nodes are there.
//   reclaim  as many nodes as inference would use beyond those that it has, or as `spare` lacks: by
//            the rule, those that disturb training least (plan/fapes_reclaim.h). If no job wants
//            workers, all.
//
// What is lent is the policy's memory; without it nothing is.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

inline constexpr std::string_view kVirtualCluster = "virtual-cluster";
inline constexpr std::string_view kForInference = "inference", kForTraining = "training";

// Why a device of the other kind's node is withheld, as Device::set_apart has it.
inline constexpr std::string_view kGoneBack = "its server is for the other kind";

// How it is chosen what goes back. kNone: nothing is lent.
enum class ReclaimRule { kFapes, kLyra, kOneWay, kNone };
// Returns their names, in the order of the enumeration: "fapes", "lyra", "one-way", "none".
std::span<const std::string_view> reclaim_rules();

struct LoanRules {
  ReclaimRule reclaim = ReclaimRule::kFapes;
  Nanos idle = Seconds(30);
  int spare = 0;

  bool operator==(const LoanRules&) const = default;
};

inline constexpr std::string_view kLoanMemory = "loans";  // its key among the memories
// Returns the nodes that such a memory says are on loan.
std::set<std::string> lent_nodes(const Memory& memory);

// Returns whether any node has the label, with one of the two values.
bool has_virtual_clusters(const Snapshot& snapshot);

// The loans of one decision. Over a snapshot, a memory and a generator that must outlive it.
class Loans {
 public:
  Loans(const Snapshot& snapshot, const LoanRules& rules, Memory& memory, Random& random);

  const std::set<std::string>& lent() const { return lent_; }
  // Whether functions of that kind have the node: now, or once all is back.
  bool may_use(const std::string& node, bool inference) const;
  bool owns(const std::string& node, bool inference) const;
  // Whether workers are still on a node that has gone back.
  bool under_way(const Snapshot& seen) const;

  // `seen`: with what inference has decided. `lacking`: lent nodes that inference would use,
  // for `function`. Changes what is lent, and returns that as actions.
  std::vector<Action> decide(const Snapshot& seen, const std::set<std::string>& lacking,
                             const FunctionName& function);

 private:
  struct Unused {
    int nodes = 0;                  // of inference, without an instance of it now
    std::vector<std::string> idle;  // and for long enough
  };
  Unused unused(const Snapshot& seen);
  std::vector<std::string> chosen(int wanted) const;
  void lend(const std::string& node, const FunctionName& job, std::vector<Action>& actions);
  void give_back(const std::string& node, const FunctionName& function, const Reason& why,
                 std::vector<Action>& actions);
  void reclaim(int wanted, const FunctionName& function, const Reason& why,
               std::vector<Action>& actions);

  const Snapshot& snapshot_;
  const LoanRules& rules_;
  Memory& memory_;
  Random& random_;
  std::map<std::string, bool> home_;  // of inference, by node of a virtual cluster
  std::set<std::string> lent_;
};

}  // namespace sluice::policy
