// The Training port in virtual time: a scenario's jobs (job.h), as the loop and a simulated
// cluster's nodes see them. One thread. The references outlive it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "control/training.h"
#include "sim/job.h"

namespace sluice::sim {

class SimulatedTraining : public control::Training, public WorkerPrograms {
 public:
  SimulatedTraining(const std::vector<ScenarioJob>& jobs, const JobPhysics& physics,
                    WorkerNode& node, const Clock& clock, EventQueue& events);

  Result<void> check(const TrainingSpec&) const override { return {}; }
  void keep(const Revision& revision) override;
  // Its workers' events outlive it.
  std::vector<std::string> remove(const FunctionName&, bool) override { return {}; }
  void run(const FunctionName&, const std::vector<InstanceId>&) override {}
  bool ended(const FunctionName&, const InstanceId&, const std::string&) override { return true; }
  void retry(const FunctionName&) override {}
  std::optional<train::JobStatus> status(const FunctionName& f) const override;
  Result<ExecOfProgram> worker(const FunctionName& f, const InstanceId& worker,
                               int threads) override;

  void started(const Instance& worker, const std::string& node) override;
  void ready(const InstanceId& worker) override { on(worker, &SimulatedJob::ready); }
  void asked_to_end(const InstanceId& worker) override { on(worker, &SimulatedJob::asked_to_end); }
  void computed(const InstanceId& worker) override { on(worker, &SimulatedJob::computed); }
  void gone(const InstanceId& worker) override;

  // Returns nullptr if the job has not arrived.
  const SimulatedJob* find(const FunctionName& f) const;
  double part_finished() const;  // of the scenario's jobs

 private:
  void on(const InstanceId& worker, void (SimulatedJob::*what)(const InstanceId&));

  const std::vector<ScenarioJob>& plans_;
  const JobPhysics& physics_;
  WorkerNode& node_;
  const Clock& clock_;
  EventQueue& events_;
  std::map<FunctionName, const ScenarioJob*> by_name_;
  std::map<std::string, std::shared_ptr<train::StepHistory>> steps_;  // by model
  std::map<FunctionName, std::unique_ptr<SimulatedJob>> jobs_;        // that have arrived
  std::map<InstanceId, SimulatedJob*> workers_;
};

}  // namespace sluice::sim
