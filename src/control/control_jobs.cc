// Training functions: their controllers, and workers that hang or fail.
#include "control/control.h"

namespace sluice::control {
namespace {

// Returns how the process ended, and the last line of its log, which is an exception's own.
std::string brief(const std::string& error) {
  constexpr std::string_view kLog = "; its log ends: ";
  const size_t log = error.find(kLog);
  if (log == error.npos) return error;
  const size_t line = error.rfind('\n');
  const size_t from = line == error.npos || line < log ? log + kLog.size() : line + 1;
  return error.substr(0, log) + ": " + error.substr(from);
}

}  // namespace

// Keeps a controller for each training function, and takes over what the controllers report.
void Control::see_jobs(Time now, UnixMillis wall) {
  if (training_ == nullptr) return;
  const std::map<RevisionKey, std::vector<InstanceId>> workers = workers_of_jobs();
  for (auto& [name, f] : functions_) {
    const Revision& revision = revision_of(f.stored, f.stored.newest);
    if (revision.spec.is_inference()) continue;
    // Nothing more comes of one that is over; adopt() forgets it with its revision.
    if (f.job && f.job->phase == JobPhase::kFinished && !f.job->files_pending) continue;
    training_->keep(revision);
    const auto found = workers.find({name, revision.number});
    training_->run(name, found != workers.end() ? found->second : std::vector<InstanceId>{});
    f.job = training_->status(name);
    if (f.submitted == Time{}) f.submitted = now - Millis(wall - revision.created);
  }
}

// Returns those that run and are to go on, by job and revision.
std::map<Control::RevisionKey, std::vector<InstanceId>> Control::workers_of_jobs() const {
  std::map<RevisionKey, std::vector<InstanceId>> workers;
  for (const ObservedInstance& o : seen_.instances) {
    const Instance& i = o.instance;
    const bool goes_on = i.state == InstanceState::kReady || i.state == InstanceState::kStarting;
    if (goes_on && o.reachable && ours(o) && !stops_.asked(i.id))
      workers[{i.function, i.revision}].push_back(i.id);
  }
  return workers;
}

// A worker that its controller gave up is stopped without a drain, and the policies replace it.
void Control::stop_stragglers(Time now, UnixMillis wall) {
  for (const auto& [name, f] : functions_) {
    if (!f.job) continue;
    for (const auto& [worker, why] : f.job->stragglers) {
      const ObservedInstance* o = find_instance(seen_.instances, worker);
      if (o == nullptr || !alive(*o) || !ours(*o) || !o->reachable || stops_.asked(worker))
        continue;
      decisions_.record({.at = wall,
                         .function = name,
                         .action = "stop",
                         .subject = worker,
                         .reason = {"straggler",
                                    "Worker " + worker + " " + why +
                                        ". The job goes on without it, and it is replaced.",
                                    {}}});
      ++accounting_.of(name).stops;
      keeper_.counted();
      stop(worker, now, Nanos(0));
    }
  }
}

// Returns whether the end of a job's worker counts as a failed start: it had done nothing.
bool Control::worker_failed(const ObservedInstance& o, const FunctionState& f) {
  const Instance& i = o.instance;
  if (i.revision != f.stored.newest) return false;  // its job is over
  const bool useful = training_->ended(i.function, i.id, brief(o.error));
  if (useful) starts_.forget(i.function, i.revision);
  return !useful;
}

}  // namespace sluice::control
