// JobPlan: which job has a worker on which device, as plan_elastic considers it. Plans are
// compared by what the jobs are expected to do. Copies share what they rest on.
//
// A job does as much as its workers at the speed of the slowest, as all wait for it. A worker's
// speed is the device's idle share, divided among the workers there. `relative` is that goodput
// over the goodput of one worker on a free device, so that jobs compare.
//
// Over jobs and sites that must outlive it. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <vector>

#include "policy/plan/jobs.h"

namespace sluice::policy {

struct Seat {
  size_t job = 0;
  const Instance* instance = nullptr;  // null: to be started
  Share begin;
};

// Returns the job's worker that the snapshot has there; nullptr: none.
const Taken* worker_on(const Site& site, size_t job);

// What a job's plans keep to.
struct JobRules {
  Share floor;               // its workers' request
  Share ceiling = kWhole;    // and their limit
  double least_speed = 0.1;  // a worker is started only where it has that
  double least_gain = 0.01;  // of one worker's goodput, to start another
  double better_by =
      0.1;            // a change has to do better by that; so much faster counts its own device
  double alone = 1;   // goodput_alone()
  double weight = 1;  // what its relative goodput counts beside that of others
};

class JobPlan {
 public:
  // Without any worker.
  JobPlan(const std::vector<Job>& jobs, const std::vector<Site>& sites,
          const std::vector<JobRules>& rules);

  int nodes(size_t job) const { return workers(job).nodes; }
  size_t count(size_t job) const { return devices_[job].size(); }
  const std::vector<uint32_t>& devices(size_t job) const { return devices_[job]; }  // ascending
  const std::vector<Seat>& seats(uint32_t device) const { return seats_[device]; }
  const Seat* seat(size_t job, uint32_t device) const;
  double speed(size_t job) const { return workers(job).speed; }  // of its slowest worker
  double relative(size_t job) const { return relative_[job]; }
  // Returns the relative goodput that all jobs lose without any worker on the device. A job that
  // then has fewer than its least loses all.
  double lost_without(uint32_t device) const;

  void keep(size_t job, const Worker& worker);
  void remove(size_t job, uint32_t device);
  void remove_all(size_t job);
  // Fills the job up to its least workers, each on the best device: an idle one before one that
  // other jobs of no higher priority use, the fastest first. Returns false, and changes nothing, if
  // there are too few.
  bool give_least(size_t job, bool share);
  // Returns the idle devices that could have a worker of the job, ascending.
  std::vector<uint32_t> idle_devices(size_t job) const;
  // Gives a job without workers so many idle devices, on as few nodes as possible; of equal ones
  // the fastest, then those that are not on loan, where it runs now, with the least room beyond.
  // Returns false, and changes nothing, if there are too few.
  bool give(size_t job, int workers);
  // The same. Gives fewer if fewer are idle, or if so many would be on more nodes of `of_a_node`
  // devices than they have to. Returns false, and changes nothing, if it has not even its least.
  bool give_most(size_t job, int workers, int of_a_node);

 private:
  struct Choice {
    uint32_t device = 0;
    Share begin;
  };
  std::optional<Choice> best_device(size_t job, bool share) const;
  std::optional<Share> place(size_t job, uint32_t device) const;
  std::map<size_t, std::vector<Choice>> idle_for(size_t job) const;
  bool give(size_t job, int workers, std::map<size_t, std::vector<Choice>> idle);
  bool may_share(size_t job, uint32_t device) const;
  const JobRules& rules(size_t job) const { return (*rules_)[job]; }
  Workers workers(size_t job, std::optional<uint32_t> without = {}) const;
  void sit(size_t job, const Choice& choice);
  void update(uint32_t device);  // the goodput of the jobs there
  void update_job(size_t job);

  const std::vector<Job>* jobs_;
  const std::vector<Site>* sites_;
  const std::vector<JobRules>* rules_;
  std::vector<std::vector<uint32_t>> devices_;  // by job
  std::vector<std::vector<Seat>> seats_;        // by device
  std::vector<double> relative_;                // by job
};

}  // namespace sluice::policy
