#include "control/journal_memory.h"

#include <algorithm>

namespace sluice::control {
namespace {

constexpr size_t kKeptDecisions = 10'000;
constexpr int64_t kKeptSeconds = 3600;

}  // namespace

Result<void> MemoryJournal::write(JournalEntry& entry) {
  ++writes;
  if (full) return Error{ErrorKind::kInternal, "the journal is full"};
  for (Decision& d : entry.decisions) {
    d.number = decisions_.empty() ? 1 : decisions_.back().number + 1;
    decisions_.push_back(d);
  }
  if (decisions_.size() > kKeptDecisions)
    decisions_.erase(decisions_.begin(), decisions_.end() - kKeptDecisions);
  for (const RateSample& s : entry.rates) {
    auto& kept = rates_[s.function];
    kept[s.second] = s;
    kept.erase(kept.begin(), kept.lower_bound(s.second - kKeptSeconds));
  }
  for (const ArrivalHour& h : entry.arrivals) {
    auto& kept = arrivals_[h.function];
    kept[h.hour] = h;
    kept.erase(kept.begin(), kept.lower_bound(h.hour - ArrivalHistory::kHours));
  }
  for (const auto& [key, account] : entry.accounts) accounts_[key] = account;
  for (const StoredInstance& i : entry.instances) instances_[i.instance.id] = i;
  for (const InstanceId& id : entry.ended) instances_.erase(id);
  return {};
}

Result<std::vector<StoredInstance>> MemoryJournal::instances() {
  std::vector<StoredInstance> all;
  for (const auto& [id, i] : instances_) all.push_back(i);
  return all;
}

Result<void> MemoryJournal::forget(const FunctionName& f) {
  rates_.erase(f);
  arrivals_.erase(f);
  const std::string name = to_string(f);
  std::erase_if(accounts_, [&](const auto& account) {
    return account.first == name || account.first == name + " traffic";
  });
  return {};
}

Result<std::vector<Decision>> MemoryJournal::decisions(const std::optional<FunctionName>& f,
                                                       int limit) {
  std::vector<Decision> found;
  for (auto d = decisions_.rbegin(); d != decisions_.rend(); ++d)
    if (found.size() < static_cast<size_t>(limit) && (!f || d->function == *f)) found.push_back(*d);
  return found;
}

Result<std::map<std::string, Reason>> MemoryJournal::notices() {
  std::map<std::string, Reason> found;
  for (const Decision& d : decisions_)
    if (d.action == "notice" || d.action == "drain" || d.action == "undrain")
      found[d.subject] = d.reason;
  return found;
}

Result<std::vector<RateSample>> MemoryJournal::rates(const FunctionName& f, int64_t since) {
  std::vector<RateSample> found;
  if (const auto of = rates_.find(f); of != rates_.end())
    for (auto s = of->second.lower_bound(since); s != of->second.end(); ++s)
      found.push_back(s->second);
  return found;
}

Result<std::vector<ArrivalHour>> MemoryJournal::arrivals(const FunctionName& f) {
  std::vector<ArrivalHour> found;
  if (const auto of = arrivals_.find(f); of != arrivals_.end())
    for (const auto& [hour, arrivals] : of->second) found.push_back(arrivals);
  return found;
}

}  // namespace sluice::control
