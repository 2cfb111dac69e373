// deal: whole devices, dealt to jobs in rounds. The published planners decide how many devices of
// which node each job has; what leads there is the same for all of them, and is here.
//
// A round's deal is kept in the memory: a worker that ends is started again on its node, and one
// that has to leave makes room first. Devices that inference uses or needs are not dealt. A node
// that has fewer than were dealt takes from the jobs of the lowest priority.
//
// Pure.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/plan/jobs.h"

namespace sluice::policy {

// A job's workers: (node, how many), by node, without zeros. Nodes are numbered as in a Table.
using Placed = std::vector<std::pair<size_t, int>>;

int workers_in(const Placed& placed);

// A job as a planner sees it.
class Contender {
 public:
  Contender(const Job& job, int most) : job_(&job), most_(most) {}

  const Job& job() const { return *job_; }
  int least() const { return job_->least(); }
  int most() const { return most_; }  // not beyond the devices that there are
  // Of so many workers on so many nodes, at full speed; 0 where its batch allows no such number.
  // Samples per second, and these × what a sample brings. A job without a step model scales
  // linearly. Each is computed once.
  double throughput(int workers, int nodes) const { return choice(workers, nodes).throughput; }
  double goodput(int workers, int nodes) const { return choice(workers, nodes).goodput; }
  double goodput(const Placed& p) const {
    return goodput(workers_in(p), static_cast<int>(p.size()));
  }
  // Samples to train; of a job that was never measured its epochs. Seconds at one worker's goodput
  // are left() / goodput(1, 1).
  double left() const;

  Placed now;           // as it was dealt, less what has gone
  Nanos age{0};         // since it was submitted
  double attained = 0;  // device-seconds that it has had
  int changes = 0;      // of its workers, since it first had some
  int most_had = 0;     // workers at once
  Nanos waited{0};      // since it last had workers, or was submitted; 0: it has some

 private:
  const BatchChoice& choice(int workers, int nodes) const;

  const Job* job_;
  int most_;
  mutable std::vector<BatchChoice> choices_;  // by 2 × workers + (on several nodes)
};

// What there is to deal.
struct Table {
  Time now{};
  std::vector<Contender> jobs;     // that want workers, by priority, submission and name
  std::vector<int> devices;        // by node: those that workers may have, theirs included
  std::vector<std::string> names;  // of the nodes
  Memory* memory = nullptr;        // the plan's own; keys that begin with "deal " are deal()'s
  Random* random = nullptr;
  std::span<const Settings> settings;  // of the plan's functions

  int all_devices() const;
};

// Returns the first of the settings that are a T; T's defaults: none is. A deal goes over all jobs,
// so the settings of one of them count.
template <class T>
T settings_among(std::span<const Settings> settings) {
  for (const Settings& s : settings)
    if (s.is<T>()) return s.as<T>();
  return {};
}

// By job of the table. Sums beyond a node's devices are cut.
using Dealt = std::vector<Placed>;

struct DealRules {
  Nanos round = Seconds(60);
  // Also when a job has come, ended or lost workers, or the devices have changed.
  bool at_events = false;
  // At each round every worker stops. It begins anew where it is dealt.
  bool restart_all = false;
};

// `planner`, as in "fapes: 4 whole devices on 1 node."
std::vector<Action> deal(Input& input, std::string_view planner, const DealRules& rules,
                         Dealt (*decide)(Table& table));

}  // namespace sluice::policy
