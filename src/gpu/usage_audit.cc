#include "gpu/usage_audit.h"

#include <algorithm>

namespace sluice::node {

UsageAudit::UsageAudit(std::shared_ptr<const DeviceAccount> account, Time now)
    : account_(std::move(account)), history_{{now, {}}} {}

void UsageAudit::attach(pid_t pid, Time now) {
  if (processes_.size() >= kMostProcesses)
    std::erase_if(processes_, [](const auto& entry) { return entry.second.attached == 0; });
  Process& process = processes_[pid];
  if (!std::exchange(process.has_attached, true)) process.since = now;
  ++process.attached;
}

void UsageAudit::leave(pid_t pid, Time now) {
  const auto found = processes_.find(pid);
  if (found != processes_.end() && --found->second.attached == 0) found->second.left_at = now;
}

void UsageAudit::watch(pid_t pid, Time now) {
  Process& process = processes_.try_emplace(pid, Process{.since = now}).first->second;
  process.left_at = std::max(process.left_at, now + kWatched);
}

void UsageAudit::sample(pid_t pid, Process& process, Time now, Time alone_since) {
  const std::optional<DeviceUse> use = account_->latest(pid);
  if (!use || use->until <= process.sampled_until || use->until > now) return;
  if (use->from < std::max(process.since, history_.front().first)) return;
  if (process.attached == 0 && use->from >= process.left_at) return;
  process.sampled_until = use->until;
  if (process.has_attached && use->from < alone_since) return;
  open_.accounted += use->busy;
  open_.resolution += use->resolution;
  from_ = std::min(from_, use->from);
  until_ = std::max(until_, use->until);
}

std::optional<UsageAudit::Finding> UsageAudit::step(Time now, const Sums& sums, Time alone_since) {
  if (history_.size() > 1 && now - history_[history_.size() - 2].first < kStep) history_.pop_back();
  history_.emplace_back(now, sums);
  while (now - history_[1].first > kHistory) history_.pop_front();
  if (account_ == nullptr || now - sampled_at_ < kSampleEvery) return std::nullopt;
  sampled_at_ = now;
  std::erase_if(processes_, [now](const auto& entry) {
    return entry.second.attached == 0 && now - entry.second.left_at > kKept;
  });
  for (auto& [pid, process] : processes_) sample(pid, process, now, alone_since);
  if (until_ <= audited_until_ || now - audited_at_ < kEvery) return std::nullopt;

  const Sums before = at(std::max(from_, audited_until_)), after = at(until_);
  Finding finding = std::exchange(open_, {});
  finding.own = {after.charged - before.charged, after.reported - before.reported,
                 after.drains - before.drains};
  audited_at_ = now;
  audited_until_ = until_;
  from_ = Time::max();
  return finding;
}

// Straight between the points; before the first and after the last as there.
UsageAudit::Sums UsageAudit::at(Time t) const {
  const auto after = std::ranges::upper_bound(history_, t, {}, &std::pair<Time, Sums>::first);
  if (after == history_.begin()) return history_.front().second;
  if (after == history_.end()) return history_.back().second;
  const auto& [from, a] = *(after - 1);
  const auto& [until, b] = *after;
  const double part = seconds(t - from) / seconds(until - from);
  const auto between = [part](Nanos x, Nanos y) { return x + from_seconds(seconds(y - x) * part); };
  return {between(a.charged, b.charged), between(a.reported, b.reported),
          a.drains + (b.drains - a.drains) * part};
}

}  // namespace sluice::node
