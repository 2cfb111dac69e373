#include "gpu/meter_cuda.h"

#include <algorithm>
#include <utility>

namespace sluice::node {

CudaMeter::CudaMeter(std::shared_ptr<const DeviceAccount> account, Time now,
                     std::shared_ptr<DeviceTurns> turns)
    : start_(now),
      audit_(std::move(account), now),
      turns_(turns != nullptr ? std::move(turns) : std::make_shared<DeviceTurns>()),
      now_(now),
      rested_at_(now),
      last_active_(now) {}

// --- what the host reports -----------------------------------------------------------------------

void CudaMeter::add_process(const ProcessIdentity& process) {
  audit_.attach(process.pid, now_);
  processes_.push_back({process, ReportedUse(now_)});
}

// What it has queued may run on without it.
void CudaMeter::remove_process(const ProcessIdentity& process) {
  for (Process& p : processes_)
    if (p.id == process && !std::exchange(p.gone, true)) audit_.leave(process.pid, now_);
}

void CudaMeter::forget_gone() {
  const auto has_run = [this](const Process& p) { return p.gone && now_ >= p.use.quiet_by(); };
  if (std::ranges::none_of(processes_, has_run)) return;
  rebase();  // while it is known how many shared the device
  for (const Process& p : processes_)
    if (has_run(p)) forgotten_ += p.use.busy(now_);
  std::erase_if(processes_, has_run);
}

void CudaMeter::report(const ProcessIdentity& process, const sluice_device_report& report,
                       Time now) {
  pass(now);
  for (Process& p : processes_)
    if (p.id == process && !p.gone) p.use.update(report, now_);
  // Of several, work that was expected and did not run may never have been charged.
  if (processes_.size() > 1) base_.reported = std::min(base_.reported, reported());
}

void CudaMeter::granted(Time now) {
  pass(now);
  turns_->begin(this, now);
  if (hold_ == Hold::kGranted) return;
  begin_hold(Hold::kGranted);
  granted_at_ = now_;
}

void CudaMeter::revoked(Time now) {
  pass(now);
  begin_hold(Hold::kDraining);
}

void CudaMeter::begin_hold(Hold hold) {
  rebase();
  if (hold_ == Hold::kNone) {
    held_since_ = now_;
    held_from_ = base_.charged;
  }
  hold_ = hold;
}

void CudaMeter::pass(Time now) {
  if (now <= now_) return;
  lease_ += std::max(now - std::max(now_, counts_from()), Nanos(0));
  now_ = now;
}

// From when on the lease runs, as things stand. Whether a client that rests is awake yet cannot be
// seen: so much of each permit costs it nothing, unless it misreports.
Time CudaMeter::counts_from() const {
  if (hold_ == Hold::kNone) return Time::max();
  if (hold_ == Hold::kDraining || !resting_ || misreports()) return now_;
  return granted_at_ + kWakeUp;
}

// --- what is charged -----------------------------------------------------------------------------

Nanos CudaMeter::reported() const {
  Nanos sum = forgotten_;
  for (const Process& p : processes_) sum += p.use.busy(now_);
  return sum;
}

// Cumulative, and never more than has passed. A drain that is not over at once is charged to every
// client. Several processes run by turns, and to each its kernels seem to take as long as its
// siblings' beside them: together they are charged no more than the time for which they held the
// device.
Nanos CudaMeter::metered() const {
  const Nanos used = reported() - base_.reported, held = lease_ - base_.lease;
  Nanos since = used;
  if (!confirmed())
    since = std::max(used, held);
  else if (hold_ == Hold::kDraining)
    since = std::max(used, held - kNews);
  Nanos most = now_ - start_;
  if (processes_.size() > 1 && hold_ != Hold::kNone)
    most = std::min(most, held_from_ + (now_ - held_since_));
  return std::min(base_.charged + since, most);
}

void CudaMeter::rebase() {
  base_ = {.charged = metered(), .lease = lease_, .reported = reported()};
}

std::optional<Reading> CudaMeter::poll(Time now, bool resting) {
  if (now <= last_poll_) return std::nullopt;
  last_poll_ = now;
  pass(now);
  const Nanos reported = this->reported();
  const bool passed_the_gate = resting_ && !resting;
  if (resting && !resting_) rested_at_ = now_;
  resting_ = resting;
  if (reported > std::exchange(last_reported_, reported) || passed_the_gate) last_active_ = now_;
  forget_gone();
  audit();
  const Nanos all = std::min(metered() + ungated_, now_ - start_);
  const Nanos busy = std::max(all - charged_, Nanos(0));
  charged_ += busy;
  return Reading{busy, seen_until()};
}

// A client that is charged by its report has used nothing more until its last report; nor, unless
// it is about to report, after that.
Time CudaMeter::seen_until() const {
  Time until = now_;
  if (!confirmed() || resting_) return until;
  for (const Process& p : processes_)
    if (!p.gone && p.use.in_flight() == Nanos(0))
      until = std::min(until, std::max(p.use.seen(), now_ - kNews));
  return until;
}

void CudaMeter::audit() {
  const auto found =
      audit_.step(now_, {.charged = metered(), .reported = reported(), .drains = drains_},
                  turns_->last_of_others(this) + kLongestTurn);
  if (found) take(*found);
  if (confirmed() && lease_ - confirmed_lease_ > kConfirmed) become(State::kUnconfirmed);
}

void CudaMeter::take(const UsageAudit::Finding& found) {
  const Nanos beyond = found.accounted - found.own.charged;
  beyond_ = std::max(beyond_ + beyond - found.resolution, Nanos(0));
  if (!confirmed()) {  // a lease that was longer than the use shortens the drains again
    const Nanos each = from_seconds(seconds(beyond) / std::max(found.own.drains, 1.0));
    runs_on_ = std::clamp(runs_on_ + each, Nanos(0), ReportedUse::kMostInFlight);
  }
  if (beyond_ > kMargin) become(State::kMisreporting);
  if (misreports()) {
    ungated_ += std::exchange(beyond_, Nanos(0));
  } else if (found.accounted <= found.own.reported + found.resolution + kSkew) {
    confirmed_lease_ = lease_;
    if (found.own.reported > Nanos(0)) become(State::kConfirmed);
  }
}

void CudaMeter::become(State state) {
  if (state == state_) return;
  rebase();
  state_ = state;
  if (confirmed()) runs_on_ = Nanos(0);
}

// --- draining ------------------------------------------------------------------------------------

// All that is in flight has run then: one process's after the other's, where they run by turns; of
// several, one that lives reports when.
Time CudaMeter::quiet_by() const {
  Time since = start_;
  Nanos queued = processes_.size() > 1 ? kNews : Nanos(0);
  for (const Process& p : processes_) {
    since = std::max(since, p.use.worked());
    if (p.use.in_flight() == Nanos(0)) continue;
    queued += p.use.in_flight();
    since = std::max(since, p.use.quiet_by() - p.use.in_flight());
  }
  return since + std::min(queued, ReportedUse::kMostInFlight);
}

// Of a client that starts nothing since `stopped`.
bool CudaMeter::quiet(const Process& process, Time stopped, bool resting) const {
  const ReportedUse& use = process.use;
  const Nanos since = now_ - stopped;
  if (process.gone || use.in_flight() > Nanos(0)) return now_ >= quiet_by() + runs_on_;
  if (!use.ever()) return since >= (resting ? kUnmetered : kLag) + runs_on_;
  return (resting || use.seen() >= stopped || since >= kNews) && since >= runs_on_;
}

bool CudaMeter::drained(Time now, Time revoked_at, bool resting) {
  pass(now);
  const Time stopped = resting && resting_ ? std::min(revoked_at, rested_at_) : revoked_at;
  for (const Process& p : processes_)
    if (!quiet(p, stopped, resting)) return false;
  rebase();
  if (hold_ == Hold::kDraining) ++drains_;
  hold_ = Hold::kNone;
  return true;
}

Time CudaMeter::look_again(Time now, Time /*revoked_at*/) const {
  const Time at = now + kLook;
  return quiet_by() > now ? std::min(at, quiet_by()) : at;
}

}  // namespace sluice::node
