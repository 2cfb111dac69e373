#include "node/meter_cuda.h"

#include <algorithm>
#include <utility>

namespace sluice::node {

CudaMeter::CudaMeter(std::shared_ptr<const DeviceAccount> account, Time now)
    : account_(std::move(account)),
      start_(now),
      now_(now),
      settled_until_(now),
      rested_at_(now),
      last_active_(now) {
  leases_.add(now_, Nanos(0));
  charges_.add(now_, Nanos(0));
}

// --- what the host tells -------------------------------------------------------------------------

void CudaMeter::add_process(const ProcessIdentity& process) {
  Process& p = processes_.emplace_back(
      Process{.id = process, .use = ClaimedUse(now_), .said = {}, .drains = drains_});
  p.said.add(now_, Nanos(0));
}

// What it has queued may run on without it.
void CudaMeter::remove_process(const ProcessIdentity& process) {
  for (Process& p : processes_) p.gone |= p.id == process;
}

// What counted once does so when it is no longer of several.
void CudaMeter::forget_gone() {
  const Nanos counted = said();
  std::erase_if(processes_, [&](const Process& p) {
    if (!p.gone || now_ < p.use.quiet_by()) return false;
    forgotten_ += p.use.busy(now_);
    return true;
  });
  said_twice_ += std::max(said() - counted, Nanos(0));
}

void CudaMeter::report(const ProcessIdentity& process, const sluice_device_report& report,
                       Time now) {
  pass(now);
  const Nanos before = said_in_sum();
  for (Process& p : processes_)
    if (p.id == process && !p.gone) p.use.hear(report, now_);
  // What had been expected and has not come true, of that which does not count.
  const Nanos less = std::max(before - said_in_sum(), Nanos(0));
  said_twice_ = std::max(said_twice_ - less, Nanos(0));
}

void CudaMeter::granted(Time now) {
  pass(now);
  if (hold_ == Hold::kGranted) return;
  begin_hold(Hold::kGranted);
  granted_at_ = now_;
}

void CudaMeter::revoked(Time now) {
  pass(now);
  begin_hold(Hold::kDraining);
  revoked_at_ = now_;
}

// Or what follows it while the device is still the client's.
void CudaMeter::begin_hold(Hold hold) {
  rebase();
  if (hold_ == Hold::kNone) {
    held_since_ = now_;
    said_before_ = said();
  }
  hold_ = hold;
}

void CudaMeter::pass(Time now) {
  if (now <= now_) return;
  lease_ += std::max(now - std::max(now_, counts_from()), Nanos(0));
  now_ = now;
}

// From when on the lease runs, as things stand. Whether one that is not watched is awake before its
// time is up nobody can tell; that much of each permit costs it nothing.
Time CudaMeter::counts_from() const {
  if (hold_ == Hold::kNone) return Time::max();
  if (hold_ == Hold::kDraining || !resting_ || now_ < distrusted_until_) return now_;
  return watched() ? Time::max() : granted_at_ + kWakeUp;
}

// Whether a use that is not reported would be found out.
bool CudaMeter::watched() const {
  return std::all_of(processes_.begin(), processes_.end(),
                     [](const Process& p) { return p.known && p.use.ever(); });
}

// --- what is charged -----------------------------------------------------------------------------

Nanos CudaMeter::said() const {
  return std::min(said_in_sum() - said_twice_, said_at_most());
}

Nanos CudaMeter::said_in_sum() const {
  Nanos sum = forgotten_;
  for (const Process& p : processes_) sum += p.use.busy(now_);
  return sum;
}

// What several processes were busy with at the same time counts once: together they had the device
// for as long as the client held it. (Where they run by turns, each one's kernels take as long as
// its siblings' beside them.)
Nanos CudaMeter::said_at_most() const {
  if (processes_.size() < 2 || hold_ == Hold::kNone) return now_ - start_;
  return said_before_ + (now_ - held_since_);
}

// Cumulative, and never more than has passed. A client that is believed pays for a drain all the
// same when it is not over at once; and what was expected of its work in flight is set right when
// that has run.
Nanos CudaMeter::due() const {
  const Nanos used = said() - base_.said;
  const Nanos held = lease_ - base_.lease;
  Nanos since = used;
  if (!believed_)
    since = std::max(used, held);
  else if (hold_ == Hold::kDraining)
    since = std::max(used, held - kNews);
  return std::min(base_.charged + since, now_ - start_);
}

void CudaMeter::rebase() {
  base_ = {.charged = due(), .lease = lease_, .said = said()};
}

std::optional<Reading> CudaMeter::poll(Time now, bool resting) {
  if (now <= last_poll_) return std::nullopt;
  last_poll_ = now;
  pass(now);
  const Nanos said = this->said();
  const bool passed_the_gate = resting_ && !resting;
  if (resting && !resting_) rested_at_ = now_;
  resting_ = resting;
  if (said > std::exchange(last_said_, said) || passed_the_gate) last_active_ = now_;

  forget_gone();
  leases_.add(now_, lease_);
  for (Process& p : processes_) {
    p.said.add(now_, p.use.busy(now_));
    judge(p);
  }
  judge_together();
  if (believed_ && lease_ - confirmed_lease_ > kConfirmed) {
    rebase();
    believed_ = false;
  }

  const Nanos busy = std::max(due() - charged_, Nanos(0));
  charged_ += busy;
  charges_.add(now_, charged_);
  return Reading{busy, seen_until()};
}

// A client that is believed has used nothing more until its last news; nor, unless it is about to
// tell, after that.
Time CudaMeter::seen_until() const {
  Time until = now_;
  if (!believed_ || resting_) return until;
  for (const Process& p : processes_)
    if (!p.gone && p.use.in_flight() == Nanos(0))
      until = std::min(until, std::max(p.use.seen(), now_ - kNews));
  return until;
}

// --- whom to believe -----------------------------------------------------------------------------

// One that attached again (after an exec, say) is two here until what it had queued has run, and
// one to the account.
bool CudaMeter::is_succeeded(const Process& process) const {
  return process.gone && std::any_of(processes_.begin(), processes_.end(), [&](const Process& p) {
           return p.id == process.id && !p.gone;
         });
}

Nanos CudaMeter::said_of(const ProcessIdentity& process, Time from, Time until) const {
  Nanos sum{0};
  for (const Process& p : processes_)
    if (p.id == process) sum += p.said.over(from, until);
  return sum;
}

void CudaMeter::judge(Process& process) {
  if (account_ == nullptr || process.id.pid == 0) return;  // 0: not seen from here
  if (is_succeeded(process)) return;
  const std::optional<DeviceUse> truth = account_->latest(process.id.pid);
  if (!truth || truth->until <= process.judged_until || truth->until > now_) return;
  if (!process.said.reaches(truth->from)) return;
  process.known = true;
  process.judged_until = truth->until;
  process.truth = *truth;
  accounted_ += truth->since(std::max(truth->from, settled_until_));
  rounded_ += truth->resolution;
  const Nanos unsaid = truth->busy - said_of(process.id, truth->from, truth->until);
  process.shortfall = std::max(process.shortfall + unsaid - truth->resolution, Nanos(0));
  const int64_t drains = drains_ - std::exchange(process.drains, drains_);
  const bool silent = !process.use.ever() && truth->busy > Nanos(0);
  if (silent || process.shortfall > kSkew) {
    learn_how_long_it_runs_on(process, drains);
    process.shortfall = process.agreed = Nanos(0);
    contradict(*truth);
    return;
  }
  process.agreed += truth->busy;
  if (process.agreed <= 2 * (truth->resolution + kSkew)) return;
  process.runs_on = Nanos(0);
  confirm();
}

// What several processes say is counted once (said_at_most), so that it is not enough that each
// says the truth: together they have to pay for what the device did. Their samples need not end at
// the same moment; what reaches beyond the earliest end counts the next time. Of who used nothing
// the account has no news, and nobody waits for any.
void CudaMeter::judge_together() {
  if (processes_.size() < 2) {
    settled_until_ = now_;
    accounted_ = rounded_ = unpaid_ = Nanos(0);
    return;
  }
  Time until = Time::max();
  for (const Process& p : processes_)
    if (p.judged_until > settled_until_ && !p.gone) until = std::min(until, p.judged_until);
  if (until == Time::max()) return;
  Nanos beyond{0};
  for (const Process& p : processes_)
    if (p.judged_until > until && !p.gone) beyond += p.truth.since(until);
  const Nanos busy = accounted_ - beyond;
  const Nanos unpaid = busy - charges_.over(settled_until_, until);
  const DeviceUse together{settled_until_, until, busy, rounded_};
  settled_until_ = until;
  accounted_ = beyond;
  unpaid_ = std::max(unpaid_ + unpaid - std::exchange(rounded_, Nanos(0)), Nanos(0));
  if (unpaid_ <= kSkew) return;
  unpaid_ = Nanos(0);
  contradict(together);
}

void CudaMeter::confirm() {
  confirmed_lease_ = lease_;
  if (believed_ || now_ < distrusted_until_) return;
  rebase();
  believed_ = true;
}

// What is made up for counts as charged when it was used, or it would pay for the next stretch too.
// And what this client was charged for work that it said was in flight stays charged.
void CudaMeter::contradict(const DeviceUse& truth) {
  rebase();
  base_.charged = std::max(base_.charged, charged_);
  believed_ = false;
  distrusted_until_ = now_ + kDistrust;
  const Nanos should = std::max(truth.busy, leases_.over(truth.from, truth.until));
  const Nanos missing = std::clamp(should - charges_.over(truth.from, truth.until), Nanos(0),
                                   (now_ - start_) - base_.charged);
  base_.charged += missing;
  charges_.raise(truth.from, truth.until, missing);
}

// What it used beyond its lease ran after its drains were taken for over. A lease that was longer
// than its use brings it down again.
void CudaMeter::learn_how_long_it_runs_on(Process& process, int64_t drains) {
  const DeviceUse& truth = process.truth;
  const Nanos beyond = truth.busy - leases_.over(truth.from, truth.until);
  const Nanos each = beyond / std::max<int64_t>(drains, 1);
  process.runs_on = std::clamp(process.runs_on + each, Nanos(0), ClaimedUse::kMostInFlight);
}

// --- draining ------------------------------------------------------------------------------------

// All that is in flight has run then: one process's after the other's, where they run by turns; of
// several, one that lives tells when.
Time CudaMeter::quiet_by() const {
  Time since = start_;
  Nanos queued = processes_.size() > 1 ? kNews : Nanos(0);
  for (const Process& p : processes_) {
    since = std::max(since, p.use.worked());
    if (p.use.in_flight() == Nanos(0)) continue;
    queued += p.use.in_flight();
    since = std::max(since, p.use.quiet_by() - p.use.in_flight());
  }
  return since + std::min(queued, ClaimedUse::kMostInFlight);
}

// Of a client that starts nothing since `stopped`.
bool CudaMeter::quiet(const Process& process, Time stopped, bool resting) const {
  const ClaimedUse& use = process.use;
  const Nanos since = now_ - stopped;
  if (process.gone || use.in_flight() > Nanos(0)) return now_ >= quiet_by() + process.runs_on;
  if (!use.ever()) return since >= (resting ? kUnmetered : kLag) + process.runs_on;
  return (resting || use.seen() >= stopped || since >= kNews) && since >= process.runs_on;
}

bool CudaMeter::drained(Time now, Time revoked_at, bool resting) {
  pass(now);
  const Time stopped = resting && resting_ ? std::min(revoked_at, rested_at_) : revoked_at;
  for (const Process& p : processes_)
    if (!quiet(p, stopped, resting)) return false;
  rebase();
  said_twice_ = std::max(said_in_sum() - said(), Nanos(0));
  if (hold_ == Hold::kDraining) ++drains_;
  hold_ = Hold::kNone;
  return true;
}

Time CudaMeter::look_again(Time now, Time /*revoked_at*/) const {
  const Time at = now + kLook;
  return quiet_by() > now ? std::min(at, quiet_by()) : at;
}

}  // namespace sluice::node
