// Fleet: the instances of one revision that count, and what each can do. Policies that choose among
// configurations by their rates share it: the sums, starts, leaving cordoned devices, and the
// sentences about them.
//
// Over a ClusterPlan and a Demand that must outlive it. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "policy/explain.h"
#include "policy/scale/cluster_plan.h"
#include "policy/scale/full.h"

namespace sluice::policy {

// A configuration that an instance may have on one type of device, with all of its time.
struct Choice {
  const Device* type = nullptr;
  Share sm;
  int batch = 1;
  double rate = 0;  // inferences per second; 0: unknown
  Bytes memory = 0;
};

struct Member {
  size_t at = 0;                 // in the plan
  const Device* type = nullptr;  // of the plan's types
  Share sm;
  double rate = 0;  // inferences per second that it can do; 0: unknown
};

class Fleet {
 public:
  using Rate = std::function<double(const Instance& instance, const Device& device)>;

  // Of the revision's instances that are not on cordoned devices, by id; what each can do is as
  // predicted.
  Fleet(ClusterPlan& plan, const Demand& demand);
  Fleet(ClusterPlan& plan, const Demand& demand, const Rate& rate);

  // A policy may change their order and their rates.
  std::vector<Member>& members() { return members_; }
  const std::vector<Member>& members() const { return members_; }
  int count() const { return static_cast<int>(members_.size()); }
  const Instance& instance(const Member& m) const { return plan_.at(m.at).instance; }
  bool is_ready(const Member& m) const { return instance(m).state == InstanceState::kReady; }
  bool started() const { return started_; }  // this decision started one

  // Returns what all can do together; capacity() is infinite while the rate of one is unknown.
  double sum() const;
  double capacity() const;

  struct Ready {
    int count = 0;
    double sum = 0;
    bool known = true;  // the rates of all of them are
  };
  Ready ready() const;

  // Returns a place for it; nothing if no device has one.
  std::optional<Spot> place(const Choice& choice, Full& full) const;
  void start(const Choice& choice, const Spot& spot, Reason reason);

  // Stops those on cordoned devices. Make before break: to be called once the others suffice.
  void leave_cordoned(const Numbers& numbers);
  void stop_all(const Reason& reason);
  // Reports that `missing` inferences per second lack instances which maxReplicas forbids.
  void report_most(double missing, double part, Numbers numbers);

  // Returns "42.0/s; 50.0/s at 80 % carry 40.0/s.", where `part` of the rates may be used.
  std::string load_text(double part) const;
  // Returns the load and the capacity, and `more`.
  Numbers numbers(const Numbers& more) const;

 private:
  ClusterPlan& plan_;
  const Demand& demand_;
  std::vector<Member> members_;
  bool started_ = false;
};

// Returns "50.0/s at 80 % carry 40.0/s.".
std::string carries_text(double rate, double part);

// Returns the configuration for a model that was never measured on the type, or is never in time
// there: the file's width, else the whole device; the file's largest batch, or one request at a
// time if its times are known.
Choice unsized_choice(const ClusterPlan& plan, const Demand& demand, const Device& type,
                      bool known);

}  // namespace sluice::policy
