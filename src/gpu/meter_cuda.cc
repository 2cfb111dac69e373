#include "gpu/meter_cuda.h"

#include <algorithm>
#include <utility>

namespace sluice::node {

CudaMeter::CudaMeter(std::shared_ptr<const DeviceAccount> account, Time now)
    : account_(std::move(account)), now_(now), rested_at_(now), last_active_(now) {}

// --- what the host reports -----------------------------------------------------------------------

void CudaMeter::add_process(const ProcessIdentity& process) {
  processes_.push_back({process, ReportedWork(now_)});
}

// What it has queued may run on without it.
void CudaMeter::remove_process(const ProcessIdentity& process) {
  for (Process& p : processes_) p.gone |= p.id == process;
}

void CudaMeter::forget_gone() {
  std::erase_if(processes_, [this](const Process& p) {
    if (!p.gone || now_ < p.work.quiet_by()) return false;
    forgotten_ = std::min(forgotten_ + p.work.submitted(), 256 * ReportedWork::kMost / 2);
    return true;
  });
}

void CudaMeter::report(const ProcessIdentity& process, const sluice_device_report& report,
                       Time now) {
  now_ = std::max(now_, now);
  for (Process& p : processes_)
    if (p.id == process && !p.gone) p.work.update(report, now_);
}

// --- what is charged -----------------------------------------------------------------------------

Nanos CudaMeter::submitted() const {
  Nanos sum = forgotten_ + ungated_;
  for (const Process& p : processes_) sum += p.work.submitted();
  return sum;
}

policy::Progress CudaMeter::progress() const {
  policy::Progress all{.submitted = submitted(), .finished = forgotten_ + ungated_};
  for (const Process& p : processes_) {
    all.finished += p.work.finished();
    all.host += p.work.host();
    all.longest = std::max(all.longest, p.work.longest());
    all.waits_for_device |= !p.gone && p.work.stalled();
    all.waits_for_end |= !p.gone && p.work.awaiting();
    if (p.work.in_flight() > Nanos(0)) all.seen = std::min(all.seen, p.work.seen());
  }
  return all;
}

// Nothing moves while one long unit runs.
bool CudaMeter::works(const Process& p) const {
  return p.work.in_flight() > Nanos(0) &&
         now_ < std::max(p.work.quiet_by(), p.work.seen() + (p.gone ? Nanos(0) : kLag));
}

std::optional<Reading> CudaMeter::poll(Time now, bool resting) {
  if (now <= last_poll_) return std::nullopt;
  last_poll_ = now;
  now_ = std::max(now_, now);
  const bool passed_the_gate = resting_ && !resting;
  if (resting && !resting_) rested_at_ = now_;
  resting_ = resting;
  const policy::Progress all = progress();
  const bool moved = all.submitted != std::exchange(last_submitted_, all.submitted) ||
                     all.finished != std::exchange(last_finished_, all.finished);
  if (moved || passed_the_gate ||
      std::ranges::any_of(processes_, [this](const Process& p) { return works(p); }))
    last_active_ = now_;
  forget_gone();
  const Nanos busy = std::max(all.submitted - charged_, Nanos(0));
  charged_ += busy;
  return Reading{busy, now_};
}

// Less what the account rounds.
void CudaMeter::watch(pid_t pid, Time now) {
  const std::optional<DeviceUse> use = account_ != nullptr ? account_->latest(pid) : std::nullopt;
  if (!use || use->until > now) return;
  if (accounted_until_.size() >= kMostWatched) accounted_until_.clear();
  const auto [entry, is_new] = accounted_until_.try_emplace(pid, use->until);
  if (is_new || use->until <= entry->second) return;
  const Time last = std::exchange(entry->second, use->until);
  const double part =
      seconds(use->until - std::max(last, use->from)) / seconds(use->until - use->from);
  const bool reports = std::ranges::any_of(processes_, [&](const Process& p) {
    return p.id.pid == pid && p.work.ever() &&
           (p.work.in_flight() > Nanos(0) || p.work.progressed() + kSkew >= use->from);
  });
  const Nanos busy = std::max(use->busy - use->resolution, Nanos(0));
  if (!reports) ungated_ += from_seconds(seconds(busy) * part);
}

// --- draining ------------------------------------------------------------------------------------

// All that is in flight has run then: one process's after the other's, where they run by turns; of
// several, one that lives reports when.
Time CudaMeter::quiet_by() const {
  Time since{};
  Nanos queued = processes_.size() > 1 ? kNews : Nanos(0);
  for (const Process& p : processes_) {
    since = std::max(since, p.work.worked());
    queued += p.work.in_flight();
  }
  return since + std::min(queued, ReportedWork::kMostInFlight);
}

// Of a client that starts nothing since `stopped`.
bool CudaMeter::quiet(const Process& process, Time stopped, bool resting) const {
  const ReportedWork& work = process.work;
  const Nanos since = now_ - stopped;
  if (process.gone || work.in_flight() > Nanos(0)) return now_ >= quiet_by();
  if (!work.ever()) return since >= (resting ? kUnreported : kLag);
  return resting || work.seen() >= stopped || since >= kNews;
}

bool CudaMeter::drained(Time now, Time revoked_at, bool resting) {
  now_ = std::max(now_, now);
  const Time stopped = resting && resting_ ? std::min(revoked_at, rested_at_) : revoked_at;
  return std::ranges::all_of(processes_,
                             [&](const Process& p) { return quiet(p, stopped, resting); });
}

Time CudaMeter::look_again(Time now, Time /*revoked_at*/) const {
  const Time at = now + kLook;
  return quiet_by() > now ? std::min(at, quiet_by()) : at;
}

}  // namespace sluice::node
