#include "control/keeper.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "control/kept_traffic.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr const char* kPlatform = "";            // the account of state without a function
constexpr const char* kTraffic = " traffic";     // behind a function's name: its counters
constexpr size_t kMostAtOnce = 100;              // functions' counters in an entry
constexpr std::string_view kMemory = "memory ";  // before a bundle's name: its policies' memory

// An instance does not outlive its boot.
bool same(const StoredInstance& a, const ObservedInstance& o) {
  const Instance &i = a.instance, &now = o.instance;
  return i.function == now.function && i.revision == now.revision && i.state == now.state &&
         i.parts == now.parts && i.batch == now.batch && a.pid == o.pid &&
         a.start_time == o.start_time;
}

}  // namespace

void Keeper::restore(const Accounts& accounts, std::vector<StoredInstance> instances) {
  const auto tried = [](const std::string& whose, const auto& restore) {
    try {
      restore();
    } catch (const json::exception& fault) {
      log::error("store: the account of '{}' cannot be read ({}): its counters begin at zero.",
                 whose, fault.what());
    }
  };
  for (auto& [name, f] : kept_.functions)
    tried(to_string(name), [&, &f = f] { restore_function(f, accounts); });
  tried(kPlatform, [&] { restore_platform(accounts); });
  tried(std::string(kMemory), [&] { restore_memories(accounts); });
  for (StoredInstance& i : instances) instances_[i.instance.id] = std::move(i);
}

void Keeper::restore_function(FunctionState& f, const Accounts& accounts) {
  const FunctionName& name = f.stored.name;
  Written& written = written_[name];
  written.minute = f.arrivals->newest_minute();
  const auto account = accounts.find(to_string(name));
  const auto counters = accounts.find(to_string(name) + kTraffic);
  if (counters != accounts.end()) {
    control::restore(f.traffic, counters->second);
  } else if (account != accounts.end()) {  // the counters' former place
    written.traffic = UINT64_MAX;
    control::restore(f.traffic, account->second.value("traffic", json::object()));
  }
  if (account == accounts.end()) return;
  kept_.accounting.of(name) = written.account = account_from(account->second);
  restore_used(name, account->second);
  const json failed = account->second.value("rollout_failed", json::object());
  if (failed.value("revision", 0) != f.stored.newest) return;
  written.rollout_failed = failed.value("why", "");
  kept_.rollouts.restore(name, written.rollout_failed);
}

void Keeper::restore_used(const FunctionName& f, const json& account) {
  for (const auto& [id, ns] : account.value("used_ns", std::map<std::string, int64_t>{}))
    kept_.accounting.restore_used(id, {f, Nanos(ns)});
}

void Keeper::restore_platform(const Accounts& accounts) {
  const auto platform = accounts.find(kPlatform);
  if (platform == accounts.end()) return;
  kept_.counts.restore(platform->second);
  restore_used({}, platform->second);  // its former place, for all functions
}

void Keeper::restore_memories(const Accounts& accounts) {
  std::string boot;
  for (const auto& [key, account] : accounts) {
    if (!key.starts_with(kMemory)) continue;
    boot = account.at("boot_id");
    memories_[key.substr(kMemory.size())] = {account.at("version"), account.at("numbers")};
  }
  kept_.policies.restore(memories_, boot);
}

JournalEntry Keeper::changes(const Observation& seen) {
  JournalEntry entry;
  if (any_node_there(seen)) add_instances(entry, seen);
  if (due_) add_counters(entry);
  return entry;
}

// Both are by id. An instance's start time is by this loop's clock, and not kept.
void Keeper::add_instances(JournalEntry& entry, const Observation& seen) const {
  auto before = instances_.begin();
  for (const ObservedInstance& o : seen.instances) {
    if (!alive(o) || !ours(o)) continue;
    for (; before != instances_.end() && before->first < o.instance.id; ++before)
      entry.ended.push_back(before->first);
    const bool known = before != instances_.end() && before->first == o.instance.id;
    if (known && same((before++)->second, o)) continue;
    const ObservedNode* node = find_node(seen, o.node);
    const std::string boot_id = node == nullptr ? "" : node->node.boot_id;
    entry.instances.push_back({o.instance, boot_id, o.pid, o.start_time});
    entry.instances.back().instance.started = Time{};
  }
  for (; before != instances_.end(); ++before) entry.ended.push_back(before->first);
}

void Keeper::add_counters(JournalEntry& entry) {
  entry.rates = kept_.counts.rates();
  in_entry_.clear();
  auto next = kept_.functions.upper_bound(last_written_);
  for (size_t n = kept_.functions.size(); n > 0 && (all_ || in_entry_.size() < kMostAtOnce); --n) {
    if (next == kept_.functions.end()) next = kept_.functions.begin();
    if (add_counters_of(entry, next->second)) last_written_ = next->first;
    ++next;
  }
  for (const auto& [id, used] : kept_.accounting.used()) {
    if (!in_entry_.contains(used.function)) continue;
    const auto account = entry.accounts.find(to_string(used.function));
    if (account != entry.accounts.end()) account->second["used_ns"][id] = used.busy.count();
  }
  for (const auto& [bundle, memory] : kept_.policies.memories()) {
    const auto before = memories_.find(bundle);
    if (before != memories_.end() && before->second == memory) continue;
    entry.accounts[std::string(kMemory) + bundle] = {{"boot_id", kept_.policies.boot()},
                                                     {"version", memory.version},
                                                     {"numbers", memory.numbers}};
  }
  entry.accounts[kPlatform] = kept_.counts.to_json();
}

// Returns false if nothing has changed.
bool Keeper::add_counters_of(JournalEntry& entry, const FunctionState& f) {
  const FunctionName& name = f.stored.name;
  const auto found = written_.find(name);
  const Written before = found == written_.end() ? Written{} : found->second;
  Written now{std::as_const(kept_.accounting).of(name), kept_.rollouts.failed(name),
              f.traffic.changes(), f.arrivals->newest_minute()};
  const bool charged = now.account != before.account || now.rollout_failed != before.rollout_failed;
  const bool asked = now.traffic != before.traffic, later = now.minute != before.minute;
  if (!charged && !asked && !later) return false;
  if (charged) {
    json account = to_json(now.account);
    if (!now.rollout_failed.empty())
      account["rollout_failed"] = {{"revision", f.stored.newest}, {"why", now.rollout_failed}};
    entry.accounts[to_string(name)] = std::move(account);
  }
  if (asked) entry.accounts[to_string(name) + kTraffic] = to_json(f.traffic);
  if (later) add_arrivals(entry, f, before.minute);
  in_entry_[name] = std::move(now);
  return true;
}

// Adds the hours with arrivals in that minute or later. A loop that dies loses the arrivals of the
// minute in progress.
void Keeper::add_arrivals(JournalEntry& entry, const FunctionState& f, int64_t since) {
  const auto& hours = f.arrivals->hours();
  for (auto h = hours.lower_bound(since / 60); h != hours.end(); ++h) {
    const auto first = h->second.begin() + std::max<int64_t>(0, since - h->first * 60);
    if (std::any_of(first, h->second.end(), [](uint32_t n) { return n > 0; }))
      entry.arrivals.push_back({f.stored.name, h->first, h->second});
  }
}

void Keeper::written(const JournalEntry& entry) {
  for (const InstanceId& id : entry.ended) instances_.erase(id);
  for (const StoredInstance& i : entry.instances) instances_[i.instance.id] = i;
  if (!std::exchange(due_, false)) return;
  all_ = false;
  kept_.counts.written();
  memories_ = kept_.policies.memories();
  for (auto& [name, now] : in_entry_) written_[name] = std::move(now);
}

void Keeper::not_written() {
  due_ = false;  // until the next second
  kept_.counts.not_written();
}

}  // namespace sluice::control
