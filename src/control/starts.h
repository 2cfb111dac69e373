// Starts: orders not seen yet, when running instances were ordered, and which revisions fail to
// start. A revision whose instances end before they are ready is tried again with exponential
// backoff, or given up.
//
// Plain state without side effects. One thread, the loop's.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/cluster.h"

namespace sluice::control {

class Starts {
 public:
  struct Settings {
    Nanos patience = Seconds(10);    // an ordered instance may take to appear
    Nanos retry_most = Seconds(60);  // between tries of a revision that cannot start
  };
  // The failed starts of a revision since its last instance that became ready.
  struct Trouble {
    int failures = 0;  // of the revision's own
    int tries = 0;     // these, and those that their node ended
    Time retry_at{};
    std::string error;
    bool given_up = false;  // there is no next try
    bool reported = false;  // that the next try waits, or that there is none
  };

  explicit Starts(Settings settings) : settings_(settings) {}

  void ordered(const Instance& i, Time now);
  bool pending() const { return !ordered_.empty(); }
  // Ordered and not seen yet, by id.
  const std::map<InstanceId, Instance>& pending_instances() const { return ordered_; }
  // Returns when this loop ordered it; Time{}: an earlier loop did.
  Time decided_at(const InstanceId& id) const;

  // Compares the orders with the observed instances, by id. Returns the lost ones, which did not
  // appear in time and are forgotten. None is lost on a node that does not answer.
  std::vector<Instance> reconcile(const std::vector<ObservedInstance>& seen,
                                  const std::vector<Device>& devices, Time now);

  // An instance ended before it was ready. A `node_fault` does not count against the revision.
  const Trouble& failed(const FunctionName& f, int revision, bool node_fault, std::string error,
                        Time now);
  // The revision is not started again before forget(). REQUIRES: a start of it failed.
  const Trouble& give_up(const FunctionName& f, int revision);
  // An instance became ready, or the revision has changed: earlier failures do not count any more.
  void forget(const FunctionName& f, int revision) {
    if (!troubles_.empty()) troubles_.erase({f, revision});
  }
  void forget(const FunctionName& f) {
    std::erase_if(troubles_, [&](const auto& t) { return t.first.first == f; });
  }
  // nullptr: none of its starts failed lately.
  const Trouble* trouble(const FunctionName& f, int revision) const;
  // Returns the trouble that delays the next start; nullptr: it may start now.
  Trouble* backoff(const FunctionName& f, int revision, Time now);

 private:
  const Settings settings_;
  std::map<InstanceId, Instance> ordered_;  // `started`: when
  std::map<InstanceId, Time> decided_;      // of ordered instances, and of those that were
  std::map<std::pair<FunctionName, int>, Trouble> troubles_;
};

// Returns why a revision that was given up is not started, and what a user can do, in sentences.
std::string said_of_given_up(int revision, const Starts::Trouble& t);

}  // namespace sluice::control
