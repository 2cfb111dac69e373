#include "sim/training.h"

#include <algorithm>

namespace sluice::sim {

SimulatedTraining::SimulatedTraining(const std::vector<ScenarioJob>& jobs,
                                     const JobPhysics& physics, WorkerNode& node,
                                     const Clock& clock, EventQueue& events)
    : plans_(jobs), physics_(physics), node_(node), clock_(clock), events_(events) {
  for (const ScenarioJob& job : plans_) by_name_[job.spec.name] = &job;
}

void SimulatedTraining::keep(const Revision& revision) {
  const auto plan = by_name_.find(revision.function);
  if (plan == by_name_.end() || jobs_.contains(revision.function)) return;
  std::shared_ptr<train::StepHistory> steps;
  const std::string& model = plan->second->model.name;
  if (physics_.shares_steps && !model.empty()) {
    steps = steps_[model];
    if (!steps) steps = steps_[model] = std::make_shared<train::StepHistory>();
  }
  jobs_[revision.function] =
      std::make_unique<SimulatedJob>(*plan->second, physics_, node_, clock_, events_, steps);
}

std::optional<train::JobStatus> SimulatedTraining::status(const FunctionName& f) const {
  const auto found = jobs_.find(f);
  if (found == jobs_.end()) return std::nullopt;
  return found->second->status();
}

Result<ExecOfProgram> SimulatedTraining::worker(const FunctionName&, const InstanceId&, int) {
  return ExecOfProgram{};
}

void SimulatedTraining::started(const Instance& worker, const std::string& node) {
  const auto found = jobs_.find(worker.function);
  if (found == jobs_.end()) return;
  workers_[worker.id] = found->second.get();
  found->second->started(worker, node);
}

void SimulatedTraining::gone(const InstanceId& worker) {
  on(worker, &SimulatedJob::gone);
  workers_.erase(worker);
}

void SimulatedTraining::on(const InstanceId& worker,
                           void (SimulatedJob::*what)(const InstanceId&)) {
  if (const auto found = workers_.find(worker); found != workers_.end())
    (found->second->*what)(worker);
}

const SimulatedJob* SimulatedTraining::find(const FunctionName& f) const {
  const auto found = jobs_.find(f);
  return found == jobs_.end() ? nullptr : found->second.get();
}

double SimulatedTraining::part_finished() const {
  const auto finished = std::ranges::count_if(
      jobs_, [](const auto& job) { return job.second->record().finished.has_value(); });
  return static_cast<double>(finished) / static_cast<double>(plans_.size());
}

}  // namespace sluice::sim
