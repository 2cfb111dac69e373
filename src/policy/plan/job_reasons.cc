#include "policy/plan/job_reasons.h"

#include <cstdio>
#include <map>
#include <string>

#include "policy/explain.h"
#include "policy/loans.h"

namespace sluice::policy {
namespace {

std::string times(double relative) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", relative);
  return std::string(text) + " times the goodput of one";
}

std::string have(int workers) {
  return counted(workers, "worker") + (workers == 1 ? " has " : " have ");
}

// Empty unless the job would have more workers if its steps were known.
std::string why_no_more(const Job& job, int workers) {
  const int most = job.most_to_measure();
  if (!job.state().measures_first || workers != most || most == job.most()) return "";
  return " Its steps are measured on " + counted(workers, "worker") + " first.";
}

int before(const Job& job) {
  return static_cast<int>(job.workers.size());
}

}  // namespace

Reason worker_starts(const Job& job, const Device& device, double idle, const Planned& p) {
  const int had = before(job);
  const std::string rule = had == 0 ? "job-starts" : p.workers > had ? "job-grows" : "job-moves";
  return {rule,
          have(p.workers) + times(p.relative) + ", at " + percent(p.speed) +
              " of a free device's speed. " + device.id + " is idle for " + percent(idle) +
              " of its time." + why_no_more(job, p.workers),
          nonzero({{"workers", p.workers},
                   {"workers_before", had},
                   {"goodput", p.relative},
                   {"speed", p.speed},
                   {"idle", idle}})};
}

Reason worker_leaves(const Job& job, const Device& device, const Planned& p) {
  const int had = before(job);
  const Numbers numbers =
      nonzero({{"workers", p.workers}, {"workers_before", had}, {"goodput", p.relative}});
  if (p.workers == 0)
    return {
        "below-least",
        "Fewer than " + counted(job.least(), "worker") + " can stay, and they make no progress.",
        numbers};
  const bool shrinks = p.workers < had;
  return {
      shrinks ? "job-shrinks" : "job-moves",
      "On other devices " + std::to_string(p.workers) +
          (p.workers == 1 ? " worker has " : " workers have ") + times(p.relative) + ". " +
          device.id +
          (shrinks ? " does more for another job, or nothing for this one." : " would be slower."),
      numbers};
}

Reason job_yields(const Device& device, double lost) {
  return {"job-yields",
          "Inference needs " + device.id + "; the jobs there lose " + times(lost) + " worker.",
          {{"lost_goodput", lost}}};
}

Reason worker_on_cordoned(const Device& device) {
  if (device.set_apart == kGoneBack)
    return {"server-reclaimed", "Server " + device.node + " goes back to inference.", {}};
  return {"drained-device", "Device " + device.id + " is cordoned.", {}};
}

Reason second_worker(const Device& device) {
  return {"second-worker", "The job has another worker on " + device.id + " already.", {}};
}

Reason slow_worker(const Device& device, double speed, Nanos since) {
  return {"slow-worker",
          "For " + seconds_text(since) + " " + device.id + " has left the worker at most " +
              percent(speed) + " of its time, and all others wait for it.",
          {{"speed", speed}}};
}

Reason job_waits(const Job& job, const std::vector<Site>& sites) {
  std::map<std::string, int> closed;
  int held = 0;
  for (const Site& s : sites) s.closed.empty() ? ++held : ++closed[s.closed];
  Words words;
  if (held > 0)
    words.add(std::to_string(held) + (held == 1 ? " has" : " have") +
              " no time or memory left for it, or a job that goes before");
  for (const auto& [why, n] : closed)
    words.add(std::to_string(n) + (n == 1 ? " is " : " are ") + why);
  const std::string devices = counted(static_cast<int>(sites.size()), "device");
  return {"job-waits",
          "The job needs " + counted(job.least(), "worker") + " to begin, each on a device of " +
              "its own: of " + devices + " " + (sites.empty() ? "none is there" : words.text()) +
              ".",
          {{"least_workers", job.least()}}};
}

Reason job_waits_for_room(const Job& job, int missing) {
  return {"job-waits",
          "The job needs " + counted(job.least(), "worker") + " to begin; " +
              counted(missing, "place") + " will be free once others have left.",
          {{"least_workers", job.least()}, {"places", missing}}};
}

}  // namespace sluice::policy
