// What the loop leaves in the store for the one after it, and takes over from the one before.
#include <algorithm>

#include "base/log.h"
#include "control/control.h"

namespace sluice::control {
namespace {

using nlohmann::json;

constexpr size_t kMostRates = 100'000;        // kept while the disk is full
constexpr const char* kPlatform = "";         // the account of what belongs to no function
constexpr const char* kTraffic = " traffic";  // behind a function's name: its counters
constexpr const char* kMemory = "memory ";    // before a bundle's name: what its policies remember

template <class Counters>
struct Counter {
  const char* name;
  uint64_t Counters::*member;
};
constexpr Counter<TrafficTotals> kTotals[] = {
    {"requests", &TrafficTotals::requests},       {"ok", &TrafficTotals::ok},
    {"invalid", &TrafficTotals::invalid},         {"shed", &TrafficTotals::shed},
    {"failed", &TrafficTotals::failed},           {"late", &TrafficTotals::late},
    {"cold_starts", &TrafficTotals::cold_starts}, {"inferences", &TrafficTotals::inferences},
    {"retried", &TrafficTotals::retried}};
constexpr Counter<ObservedTraffic> kSeen[] = {{"requests", &ObservedTraffic::requests},
                                              {"ok", &ObservedTraffic::ok},
                                              {"invalid", &ObservedTraffic::invalid},
                                              {"shed", &ObservedTraffic::shed},
                                              {"failed", &ObservedTraffic::failed},
                                              {"timed_out", &ObservedTraffic::timed_out},
                                              {"gone", &ObservedTraffic::gone},
                                              {"late", &ObservedTraffic::late},
                                              {"cold_starts", &ObservedTraffic::cold_starts},
                                              {"retried", &ObservedTraffic::retried},
                                              {"inferences", &ObservedTraffic::inferences},
                                              {"gaps", &ObservedTraffic::gaps}};

json to_json(const Histogram& h) {
  return {{"sum_ns", h.sum().count()}, {"buckets", h.filled()}};
}

Histogram histogram_from(const json& j) {
  Histogram h;
  h.restore_sum(Nanos(j.value("sum_ns", int64_t{0})));
  for (const auto& [bucket, count] : j.value("buckets", std::vector<std::pair<int, uint64_t>>{}))
    h.restore(bucket, count);
  return h;
}

template <class Counters, size_t N>
json counters_to_json(const Counters& c, const Counter<Counters> (&table)[N]) {
  json out = {{"latency", to_json(c.latency)}};
  for (const auto& [name, member] : table) out[name] = c.*member;
  return out;
}

template <class Counters, size_t N>
Counters counters_from(const json& j, const Counter<Counters> (&table)[N]) {
  Counters c;
  for (const auto& [name, member] : table) c.*member = j.value(name, uint64_t{0});
  c.latency = histogram_from(j.value("latency", json::object()));
  return c;
}

json to_json(const Traffic& traffic) {
  const ObservedTraffic& last = traffic.last();
  json seen = counters_to_json(last, kSeen);
  seen.update({{"concurrency_seconds", last.concurrency_seconds},
               {"gap_sum", last.gap_sum},
               {"gap_squares", last.gap_squares}});
  return {{"totals", counters_to_json(traffic.totals(), kTotals)}, {"seen", seen}};
}

void restore(Traffic& traffic, const json& j) {
  const json seen = j.value("seen", json::object());
  ObservedTraffic last = counters_from(seen, kSeen);
  last.concurrency_seconds = seen.value("concurrency_seconds", 0.0);
  last.gap_sum = seen.value("gap_sum", 0.0);
  last.gap_squares = seen.value("gap_squares", 0.0);
  traffic.restore(counters_from(j.value("totals", json::object()), kTotals), last);
}

}  // namespace

Result<std::unique_ptr<Control>> Control::open(Store& store, Cluster& cluster, const Clock& clock,
                                               ControlSettings settings) {
  const policy::Bundle* bundle = policy::find_bundle(settings.bundle);
  if (bundle == nullptr)
    return Error{ErrorKind::kInvalid, "the policy '" + settings.bundle + "' is not known"};
  if (const auto set = bundle->settings.with(settings.bundle_settings); !set.ok())
    return within("policy " + settings.bundle, set.error());
  std::unique_ptr<Control> c(new Control(store, cluster, clock, std::move(settings)));
  SLUICE_ASSIGN(functions, store.functions());
  SLUICE_ASSIGN(profiles, store.profiles());
  SLUICE_ASSIGN(accounts, store.accounts());
  SLUICE_ASSIGN(instances, store.instances());
  for (StoredFunction& f : functions) {
    c->all_read_ = c->all_read_ && f.complete;
    if (f.revisions.empty()) {
      c->unreadable_.insert(f.name);
      continue;
    }
    Runtime& r = c->functions_[f.name];
    SLUICE_ASSIGN(last, store.decisions(f.name, 1));
    if (!last.empty()) r.last_decision = last.front();
    r.stored = std::move(f);
  }
  c->profiles_ = std::move(profiles);
  c->kept_ = std::move(instances);
  c->restore_predictor();
  c->restore_counts(accounts);
  return c;
}

// Counters go on from where the loop before this one saw them last: nothing is counted twice, and
// what came meanwhile is not lost. An account that cannot be read begins at zero.
void Control::restore_counts(const Accounts& accounts) {
  const auto tried = [](const std::string& whose, const auto& restore) {
    try {
      restore();
    } catch (const json::exception& fault) {
      log::error("store: the account of '{}' cannot be read ({}): its counters begin at zero.",
                 whose, fault.what());
    }
  };
  for (auto& [name, r] : functions_)
    tried(to_string(name), [&, &name = name, &r = r] { restore_counts(name, r, accounts); });
  tried(kPlatform, [&] { restore_platform(accounts); });
  tried(kMemory, [&] { restore_memories(accounts); });
}

void Control::restore_memories(const Accounts& accounts) {
  for (const auto& [key, account] : accounts) {
    if (!key.starts_with(kMemory)) continue;
    memories_boot_ = account.at("boot_id");
    memories_[key.substr(std::string_view(kMemory).size())] = {account.at("version"),
                                                               account.at("numbers")};
  }
  kept_memories_ = memories_;
}

Result<void> Control::keep_memories() {
  for (const auto& [bundle, memory] : memories_) {
    const auto kept = kept_memories_.find(bundle);
    if (kept != kept_memories_.end() && kept->second == memory) continue;
    SLUICE_TRY(store_.save_account(
        kMemory + bundle,
        {{"boot_id", memories_boot_}, {"version", memory.version}, {"numbers", memory.numbers}}));
  }
  return {};
}

void Control::restore_counts(const FunctionName& name, Runtime& r, const Accounts& accounts) {
  const auto account = accounts.find(to_string(name));
  const auto counters = accounts.find(to_string(name) + kTraffic);
  if (counters != accounts.end()) {
    restore(r.traffic, counters->second);
  } else if (account != accounts.end()) {  // where the counters once stood
    r.kept.traffic = UINT64_MAX;
    restore(r.traffic, account->second.value("traffic", json::object()));
  }
  if (account == accounts.end()) return;
  accounting_.of(name) = r.kept.account = account_from(account->second);
  const json failed = account->second.value("rollout_failed", json::object());
  if (failed.value("revision", 0) == r.stored.newest)
    r.rollout_failed = r.kept.rollout_failed = failed.value("why", "");
}

void Control::restore_platform(const Accounts& accounts) {
  const auto platform = accounts.find(kPlatform);
  if (platform == accounts.end()) return;
  gateway_started_ = platform->second.value("gateway_started", UnixMillis{0});
  counted_.wall = platform->second.value("counted", UnixMillis{0});
  accounted_.wall = platform->second.value("accounted", counted_.wall);
  std::map<InstanceId, Nanos> used;
  for (const auto& [id, ns] : platform->second.value("used_ns", std::map<std::string, int64_t>{}))
    used[id] = Nanos(ns);
  accounting_.restore_used(std::move(used));
}

Control::Control(Store& store, Cluster& cluster, const Clock& clock, ControlSettings settings)
    : store_(store),
      cluster_(cluster),
      clock_(clock),
      settings_(std::move(settings)),
      predictor_(settings_.window),
      random_(settings_.seed),
      next_id_(static_cast<uint64_t>(clock.now().time_since_epoch().count())) {}

// A profile is of a model; every revision that serves the model is known by it.
void Control::restore_predictor() {
  for (const auto& [name, runtime] : functions_)
    for (const Revision& r : runtime.stored.revisions)
      if (const auto found = profiles_.find(r.spec.model.path); found != profiles_.end()) {
        predict::Profile profile = found->second;
        profile.function = name;
        profile.revision = r.number;
        predictor_.set(profile);
      }
}

// Accounts are stored by the step that changes them, so that none ever goes back.
void Control::keep() {
  if (seen_.node_there) keep_instances();
  if (!std::exchange(counts_due_, false)) return;
  if (const auto saved = keep_counts(); !saved.ok()) log::warn("{}", saved.error().message);
}

void Control::close() {
  if (const auto saved = keep_counts(); !saved.ok()) log::warn("{}", saved.error().message);
}

void Control::keep_instances() {
  std::vector<StoredInstance> now;
  for (const ObservedInstance& o : seen_.instances)
    if (alive(o) && ours(o)) {
      now.push_back({o.instance, seen_.boot_id, o.pid, o.start_time});
      now.back().instance.started = Time{};
    }
  const auto same = [](const StoredInstance& a, const StoredInstance& b) {
    return a.instance == b.instance && a.boot_id == b.boot_id && a.pid == b.pid &&
           a.start_time == b.start_time;
  };
  if (std::ranges::equal(now, kept_, same)) return;
  if (const auto saved = store_.save_instances(now); saved.ok())
    kept_ = std::move(now);
  else
    log::warn("{}", saved.error().message);
}

// What changed, all at once: totals and the counters they were made from must be of the same
// moment.
Result<void> Control::keep_counts() {
  auto saved = store_.transaction([&]() -> Result<void> {
    SLUICE_TRY(store_.add_rates(rates_));
    for (const auto& [name, r] : functions_) SLUICE_TRY(keep_counts(name, r));
    SLUICE_TRY(keep_memories());
    std::map<std::string, int64_t> used;
    for (const auto& [id, busy] : accounting_.used()) used[id] = busy.count();
    return store_.save_account(kPlatform, {{"gateway_started", gateway_started_},
                                           {"counted", counted_.wall},
                                           {"accounted", accounted_.wall},
                                           {"used_ns", used}});
  });
  if (saved.ok() || rates_.size() > kMostRates) rates_.clear();
  if (!saved.ok()) return saved;
  kept_memories_ = memories_;
  for (auto& [name, r] : functions_)
    r.kept = {accounting_.of(name), r.rollout_failed, r.traffic.changes()};
  return saved;
}

Result<void> Control::keep_counts(const FunctionName& name, const Runtime& r) {
  const Account& held = accounting_.of(name);
  if (held != r.kept.account || r.rollout_failed != r.kept.rollout_failed) {
    json account = control::to_json(held);
    if (!r.rollout_failed.empty())
      account["rollout_failed"] = {{"revision", r.stored.newest}, {"why", r.rollout_failed}};
    SLUICE_TRY(store_.save_account(to_string(name), account));
  }
  if (r.traffic.changes() == r.kept.traffic) return {};
  return store_.save_account(to_string(name) + kTraffic, to_json(r.traffic));
}

}  // namespace sluice::control
