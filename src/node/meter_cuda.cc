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
  Witness& witness = witness_of(process);
  if (witness.processes == 0) witness.testimony.hear(now_, witness.forgotten);
  witness.testimony.attach(now_);
  ++witness.processes;
  processes_.push_back({witness, ClaimedUse(now_)});
}

// What it has queued may run on without it.
void CudaMeter::remove_process(const ProcessIdentity& process) {
  for (Process& p : processes_) {
    if (p.gone || p.id() != process) continue;
    p.gone = true;
    p.witness.testimony.leave(now_);
  }
}

// What counted once does so when it is no longer of several.
void CudaMeter::forget_gone() {
  const Nanos counted = said();
  std::erase_if(processes_, [&](const Process& p) {
    if (!p.gone || now_ < p.use.quiet_by()) return false;
    forgotten_ += p.use.busy(now_);
    p.witness.forgotten += p.use.busy(now_);
    --p.witness.processes;
    return true;
  });
  said_twice_ += std::max(said() - counted, Nanos(0));
}

void CudaMeter::report(const ProcessIdentity& process, const sluice_device_report& report,
                       Time now) {
  pass(now);
  const Nanos before = said_in_sum();
  for (Process& p : processes_)
    if (p.id() == process && !p.gone) p.use.hear(report, now_);
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
                     [](const Process& p) { return p.witness.testimony.known() && p.use.ever(); });
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

  leases_.add(now_, lease_);
  hear_witnesses();
  forget_gone();
  judge_all();
  judge_together();
  forget_witnesses();
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

CudaMeter::Witness& CudaMeter::witness_of(const ProcessIdentity& process) {
  for (Witness& w : witnesses_)
    if (w.testimony.process() == process) return w;
  if (witnesses_.size() >= kMostWitnesses) {
    const auto first = std::min_element(witnesses_.begin(), witnesses_.end(),
                                        [](const Witness& a, const Witness& b) {
                                          return std::pair(a.processes, a.testimony.left_at()) <
                                                 std::pair(b.processes, b.testimony.left_at());
                                        });
    if (first->processes == 0) witnesses_.erase(first);
  }
  return witnesses_.emplace_back(Witness{.testimony = Testimony(process, now_), .drains = drains_});
}

void CudaMeter::hear_witnesses() {
  for (const Process& p : processes_) {
    p.witness.said += p.use.busy(now_);
    if (p.use.ever()) p.witness.testimony.spoke();
  }
  for (Witness& w : witnesses_) {
    if (w.processes > 0) w.testimony.hear(now_, w.forgotten + std::exchange(w.said, Nanos(0)));
  }
}

void CudaMeter::forget_witnesses() {
  std::erase_if(witnesses_,
                [&](const Witness& w) { return w.processes == 0 && w.testimony.outdated(now_); });
}

void CudaMeter::judge_all() {
  if (account_ == nullptr) return;
  const bool look_back = now_ - looked_back_ >= kLookBack;
  if (look_back) looked_back_ = now_;
  for (Witness& w : witnesses_)
    if (w.testimony.attached() || look_back) judge(w);
}

void CudaMeter::judge(Witness& witness) {
  Testimony& testimony = witness.testimony;
  const pid_t pid = testimony.process().pid;
  if (pid == 0) return;  // not seen from here
  const Testimony::Verdict verdict = testimony.judge(account_->latest(pid), now_);
  if (verdict == Testimony::Verdict::kNoNews) return;
  const DeviceUse& truth = testimony.truth();
  accounted_ += truth.since(std::max(truth.from, settled_until_));
  rounded_ += truth.resolution;
  const int64_t drains = drains_ - std::exchange(witness.drains, drains_);
  if (verdict == Testimony::Verdict::kUntrue) {
    learn_how_long_it_runs_on(witness, drains);
    contradict(truth);
  } else if (verdict == Testimony::Verdict::kTrue && testimony.attached()) {
    witness.runs_on = Nanos(0);
    confirm();
  }
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
  for (const Witness& w : witnesses_) {
    const Time told = w.testimony.judged_until();
    if (told > settled_until_ && w.testimony.attached()) until = std::min(until, told);
  }
  if (until == Time::max()) return;
  Nanos beyond{0};
  for (const Witness& w : witnesses_)
    if (w.testimony.judged_until() > until) beyond += w.testimony.truth().since(until);
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
void CudaMeter::learn_how_long_it_runs_on(Witness& witness, int64_t drains) {
  const DeviceUse& truth = witness.testimony.truth();
  const Nanos beyond = truth.busy - leases_.over(truth.from, truth.until);
  const Nanos each = beyond / std::max<int64_t>(drains, 1);
  witness.runs_on = std::clamp(witness.runs_on + each, Nanos(0), ClaimedUse::kMostInFlight);
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
  const Nanos runs_on = process.witness.runs_on;
  if (process.gone || use.in_flight() > Nanos(0)) return now_ >= quiet_by() + runs_on;
  if (!use.ever()) return since >= (resting ? kUnmetered : kLag) + runs_on;
  return (resting || use.seen() >= stopped || since >= kNews) && since >= runs_on;
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
