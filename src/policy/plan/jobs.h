// jobs: a bundle's training jobs, their workers, and what each device has for a worker. A worker is
// an instance of the job with one part. Plans share these (plan_elastic, plan_fixed). Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "model/action.h"
#include "model/step_model.h"
#include "policy/input.h"

namespace sluice::policy {

struct Worker {
  const Instance* instance = nullptr;
  uint32_t device = 0;  // of the snapshot
};

struct Job {
  const FunctionView* view = nullptr;
  const Settings* settings = nullptr;
  // Of the newest revision, that start or are ready, on devices of the snapshot; by id.
  std::vector<Worker> workers;
  // Those of an older revision. They leave.
  std::vector<Worker> retired;
  // What batch_of() has found: a plan asks for the same again and again, and each is a search. By
  // workers, whether they are on several nodes, and speed.
  mutable std::map<std::tuple<int, bool, double>, BatchChoice> batches = {};

  const FunctionName& name() const { return view->spec.name; }
  const TrainingSpec& spec() const { return std::get<TrainingSpec>(view->spec.kind); }
  const JobView& state() const;
  bool wants_workers() const;
  int least() const;
  int most() const;  // the largest int: no bound
  // Those of a plan without elasticity: the most, if that is stated.
  int asked_for() const { return spec().max_workers > 0 ? most() : least(); }
  // The most while its steps are still to be measured: two, or its least.
  int most_to_measure() const { return std::min(most(), std::max(least(), 2)); }
};

// Returns the input's jobs by priority (the higher first), time of submission and name.
std::vector<Job> jobs_of(const Input& input);

// Returns the best batch of so many workers, with its samples per second and goodput. A job without
// a step model scales linearly, from 1; no batch: the job allows none for so many.
BatchChoice batch_of(const Job& job, const Workers& workers);
// Returns the goodput of so many workers at the speed of the slowest: samples per second × what a
// sample brings, with the best batch. It is linear in the workers if the job has no step model, and
// 0 if the job allows no batch for so many.
double goodput(const Job& job, const Workers& workers);
// Returns samples per second. REQUIRES: the job has a step model.
double throughput_of(const Job& job, const Workers& workers);

// Returns the goodput of one worker on a free device. If the job needs several for its batch, that
// of its least workers, divided by their number; 1 if nothing is possible. Never 0.
double goodput_alone(const Job& job);

// An interval of a device's window that an instance holds, over the whole width or a part of it.
struct Taken {
  Share begin, length;
  const Instance* by = nullptr;
  // The job whose worker it is, in jobs_of(); nothing for inference and for workers that leave.
  std::optional<size_t> job = {};
};

// What a device has for workers.
struct Site {
  const Device* device = nullptr;
  std::string_view arbiter;  // that a worker of the input's bundle has here (arbiter_for)
  size_t node = 0;           // its node's number among those of the sites
  // The share of its time that inference and foreign programs leave: 1 less what they used in the
  // last seconds, or, of one that was not measured, less its request.
  double idle = 1;
  bool lent = false;         // its node is inference's, on loan
  bool used = false;         // an instance of inference, or a foreign program, is there
  int others = 0;            // workers of other bundles' jobs
  std::string closed;        // why it takes no worker; empty: it does
  std::vector<Taken> taken;  // by all instances, draining ones included
};

// Returns them in the order of the snapshot's devices. A device that runs another arbiter than a
// worker would have there is closed.
std::vector<Site> sites_of(const Input& input, const std::vector<Job>& jobs);

// Returns the latest begin of a free interval of that length; nothing: there is none. Workers begin
// late in the window, so that the time before stays in one piece for inference.
std::optional<Share> latest_begin(std::vector<Taken> taken, Share length);

// Returns the action that starts a worker, over the device's whole width.
Action start_worker(const Job& job, const Site& site, Share begin, Quota quota, Reason reason);
Action stop_worker(const Job& job, const Worker& worker, Reason reason);

// Appends the stops of all workers of jobs that want none, and of older revisions. A worker whose
// node does not answer stays.
void stop_unwanted(const std::vector<Job>& jobs, const Snapshot& snapshot,
                   std::vector<Action>& actions);

// Appends the stops of the job's workers on cordoned devices. Returns how many workers stay.
int stop_on_cordoned(const Job& job, const std::vector<Site>& sites, std::vector<Action>& actions);

}  // namespace sluice::policy
