// A training job in virtual time: the live controller (train/job.h), and its workers as programs
// that compute nothing but time. The loop starts and stops the workers as instances.
//
// Workers compute in rounds of whole steps. Each has the round's work on its own device, whose
// arbiter says how long that takes. The slowest sets the speed of all: a step takes what the step
// model says of it, synchronisation included. A generation ends behind a round, as live behind a
// step.
//
// Messages between the controller and its workers are events of the same moment. One thread. The
// references outlive it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/event_queue.h"
#include "sim/scenario_job.h"
#include "sim/worker_programs.h"
#include "train/job.h"

namespace sluice::sim {

// What a job did until now.
struct JobRecord {
  std::optional<Time> first_start;      // of a worker
  std::optional<Time> began, finished;  // its first step, and the end of its last one
  double samples = 0;                   // trained
  double learned = 0;                   // these, each with its efficiency
  double worker_seconds = 0;            // of instances
  int most_workers = 0;
  int64_t generations = 0;
};

class SimulatedJob : public WorkerPrograms {
 public:
  SimulatedJob(const ScenarioJob& plan, const JobPhysics& physics, WorkerNode& node,
               const Clock& clock, EventQueue& events,
               std::shared_ptr<train::StepHistory> steps = nullptr);

  void started(const Instance& worker, const std::string& node) override;
  void ready(const InstanceId& worker) override;
  void asked_to_end(const InstanceId& worker) override;
  void computed(const InstanceId& worker) override;
  void gone(const InstanceId& worker) override;

  // What its decisions rest on: of the re-forms the last one, and no members.
  const train::JobStatus& status();
  JobRecord record() const;

 private:
  struct Worker {
    std::string node;
    bool member = false;  // of a generation, now or before
    bool computes = false;
    bool stopped = false;  // of the present generation
  };
  enum class State {
    kForming,    // the members connect
    kComputing,  // at least one member has work of the round left
    kSumming,    // all wait for the round's end
    kStopped,    // no round goes on; members leave the generation, or have left it
  };

  double total() const;
  double efficiency_now() const;
  Time now() const { return clock_.now(); }
  void send(const std::vector<train::Outgoing>& out);
  void say(const InstanceId& worker, const train::WorkerMessage& message);
  void wake();
  void receive(const InstanceId& worker, const train::ControllerMessage& message);
  void form(const InstanceId& worker, const train::Form& form);
  void halt(const InstanceId& worker, const train::Halt& halt);
  void leave(const InstanceId& worker, bool save);
  void stop(const InstanceId& worker);
  void stop_all();
  void begin_round();
  void end_round();
  void report();
  void count_workers();
  // Calls it then, unless the group's state has changed by then.
  void later(Time when, void (SimulatedJob::*what)());
  train::JobPosition position() const;

  const ScenarioJob& plan_;
  const JobPhysics& physics_;
  WorkerNode& node_;
  const Clock& clock_;
  EventQueue& events_;
  train::Job controller_;
  train::JobStatus status_;
  bool status_stale_ = true;
  Time wake_ = Time::max();

  std::map<InstanceId, Worker> workers_;
  State state_ = State::kStopped;
  int64_t plans_ = 0;  // of later(): an older one counts for nothing
  int64_t generation_ = 0;
  std::vector<InstanceId> group_, last_group_;  // by rank
  int formed_ = 0;                              // members that have their rank
  bool halting_ = false;
  int batch_ = 0, next_batch_ = 0;

  // The round, and what is known of the one before it.
  Time round_began_{};
  int64_t round_steps_ = 0;
  int round_waits_for_ = 0;
  double step_ = 0;      // seconds of a step; 0: of no round yet with these workers and this batch
  double computes_ = 0;  // of that, rank 0 computes
  std::optional<Time> reported_;  // in this generation

  int64_t steps_ = 0;
  double done_ = 0;   // of total()
  double noise_ = 0;  // as measured; 0: not yet
  Time counted_{};    // workers
  JobRecord record_;
};

}  // namespace sluice::sim
