#include "policy/plan/job_actions.h"

#include <utility>

#include "policy/place/layout.h"
#include "policy/plan/job_reasons.h"

namespace sluice::policy {
namespace {

class JobActions {
 public:
  JobActions(const std::vector<Job>& jobs, const std::vector<Site>& sites,
             const std::vector<JobRules>& rules, const JobPlan& plan)
      : jobs_(jobs), sites_(sites), rules_(rules), plan_(plan), started_(sites.size()) {}

  void stop(size_t job, const std::map<InstanceId, Reason>& leaves) {
    const Job& j = jobs_[job];
    for (const Worker& w : j.workers) {
      const Seat* seat = plan_.seat(job, w.device);
      const Device& device = *sites_[w.device].device;
      if ((seat != nullptr && seat->instance == w.instance) || !device.reachable) continue;
      const auto forced = leaves.find(w.instance->id);
      out_.push_back(stop_worker(
          j, w, forced != leaves.end() ? forced->second : worker_leaves(j, device, part_of(job))));
    }
  }

  void start(size_t job) {
    const Job& j = jobs_[job];
    std::vector<uint32_t> devices;
    int running = 0, waits = 0;
    for (const uint32_t d : plan_.devices(job)) {
      const Seat* seat = plan_.seat(job, d);
      if (seat->instance != nullptr)
        ++running;
      else if (is_free(job, d, seat->begin))
        devices.push_back(d);
      else
        ++waits;
    }
    if (plan_.count(job) == 0)
      out_.push_back({j.name(), Unmet{}, job_waits(j, sites_)});
    else if (waits > 0 && running + static_cast<int>(devices.size()) < j.least())
      out_.push_back({j.name(), Unmet{}, job_waits_for_room(j, waits)});
    else
      for (const uint32_t d : devices) start_on(job, d);
  }

  std::vector<Action> take() { return std::move(out_); }

 private:
  Planned part_of(size_t job) const {
    return {static_cast<int>(plan_.count(job)), plan_.relative(job), plan_.speed(job)};
  }

  void start_on(size_t job, uint32_t d) {
    const Job& j = jobs_[job];
    const Site& site = sites_[d];
    out_.push_back(start_worker(j, site, plan_.seat(job, d)->begin,
                                {rules_[job].floor, rules_[job].ceiling},
                                worker_starts(j, *site.device, site.idle, part_of(job))));
    started_[d] += j.view->spec.memory;
  }

  // Returns whether the place is free now, with the workers that leave still there.
  bool is_free(size_t job, uint32_t device, Share begin) const {
    const Site& site = sites_[device];
    Bytes memory = site.device->memory - started_[device] - jobs_[job].view->spec.memory;
    for (const Taken& t : site.taken) {
      memory -= t.by->slice().memory;
      if (intersect(t.begin, t.length, begin, rules_[job].floor)) return false;
    }
    return memory >= 0;
  }

  const std::vector<Job>& jobs_;
  const std::vector<Site>& sites_;
  const std::vector<JobRules>& rules_;
  const JobPlan& plan_;
  std::vector<Bytes> started_;  // memory of the workers that are started, by device
  std::vector<Action> out_;
};

}  // namespace

std::vector<Action> job_actions(const Input& input, const std::vector<Job>& jobs,
                                const std::vector<Site>& sites, const std::vector<JobRules>& rules,
                                const JobPlan& plan, const std::map<InstanceId, Reason>& leaves) {
  std::vector<Action> out;
  stop_unwanted(jobs, input.snapshot, out);
  JobActions actions(jobs, sites, rules, plan);
  for (size_t j = 0; j < jobs.size(); ++j)
    if (jobs[j].wants_workers()) actions.stop(j, leaves);
  for (size_t j = 0; j < jobs.size(); ++j)
    if (jobs[j].wants_workers()) actions.start(j);
  for (Action& a : actions.take()) out.push_back(std::move(a));
  return out;
}

}  // namespace sluice::policy
