#include "policy/loans.h"

#include <algorithm>
#include <map>
#include <utility>

#include "policy/explain.h"
#include "policy/plan/fapes_reclaim.h"

namespace sluice::policy {
namespace {

constexpr int kMemoryVersion = 1;
// Keys of the memory begin with one of these, followed by a node; the number is since when.
constexpr std::string_view kLent = "lent ", kIdle = "idle ";

std::string key(std::string_view kind, const std::string& node) {
  return std::string(kind) + node;
}

// Returns the jobs that want workers, by priority and submission.
std::vector<const FunctionView*> open_jobs(const Snapshot& snapshot) {
  std::vector<const FunctionView*> jobs;
  for (const FunctionView& f : snapshot.functions)
    if (!f.spec.is_inference() && f.job && !f.spec.training().paused && wants_workers(*f.job))
      jobs.push_back(&f);
  std::ranges::stable_sort(jobs, {}, [](const FunctionView* f) {
    return std::pair(-f->spec.priority, f->job->submitted);
  });
  return jobs;
}

// Returns its virtual cluster; empty: none.
std::string_view home_of(const Node& node) {
  const auto label = node.labels.find(std::string(kVirtualCluster));
  if (label == node.labels.end()) return {};
  return label->second == kForInference || label->second == kForTraining ? label->second
                                                                         : std::string_view();
}

}  // namespace

bool has_virtual_clusters(const Snapshot& snapshot) {
  return std::ranges::any_of(snapshot.nodes, [](const Node& n) { return !home_of(n).empty(); });
}

std::span<const std::string_view> reclaim_rules() {
  static constexpr std::string_view kNames[] = {"fapes", "lyra", "one-way", "none"};
  return kNames;
}

std::set<std::string> lent_nodes(const Memory& memory) {
  std::set<std::string> nodes;
  for (const auto& [name, since] : memory.numbers)
    if (name.starts_with(kLent)) nodes.insert(name.substr(kLent.size()));
  return nodes;
}

Loans::Loans(const Snapshot& snapshot, const LoanRules& rules, Memory& memory, Random& random)
    : snapshot_(snapshot), rules_(rules), memory_(memory), random_(random) {
  for (const Node& node : snapshot.nodes)
    if (const std::string_view home = home_of(node); !home.empty())
      home_[node.name] = home == kForInference;
  if (memory_.version != kMemoryVersion) memory_ = {.version = kMemoryVersion};
  std::erase_if(memory_.numbers, [&](const auto& entry) {
    const std::string_view name = entry.first;
    const bool lent = name.starts_with(kLent);
    const auto home = home_.find(std::string(name.substr((lent ? kLent : kIdle).size())));
    return home == home_.end() || !home->second || entry.second.size() != 1;
  });
  lent_ = lent_nodes(memory_);
}

bool Loans::may_use(const std::string& node, bool inference) const {
  const auto home = home_.find(node);
  if (home == home_.end()) return true;
  return inference == (home->second && !lent_.contains(node));
}

bool Loans::owns(const std::string& node, bool inference) const {
  const auto home = home_.find(node);
  return home == home_.end() || home->second == inference;
}

bool Loans::under_way(const Snapshot& seen) const {
  const SnapshotIndex index(seen);
  for (uint32_t i = 0; i < seen.instances.size(); ++i) {
    const auto f = index.function_of(i);
    const auto d = index.device_of(i);
    if (!f || !d || seen.functions[*f].spec.is_inference()) continue;
    const std::string& node = seen.devices[*d].node;
    if (home_.contains(node) && may_use(node, true)) return true;
  }
  return false;
}

Loans::Unused Loans::unused(const Snapshot& seen) {
  const double now = seconds(snapshot_.now.time_since_epoch());
  const SnapshotIndex index(seen);
  std::set<std::string> used;
  for (uint32_t i = 0; i < seen.instances.size(); ++i) {
    const auto f = index.function_of(i);
    if (f && !seen.functions[*f].spec.is_inference()) continue;
    for (const Part& p : seen.instances[i].parts)
      if (const auto d = index.device(p.device)) used.insert(seen.devices[*d].node);
  }
  Unused unused;
  for (const Node& node : snapshot_.nodes) {
    if (!home_.contains(node.name) || !may_use(node.name, true)) continue;
    const std::string since = key(kIdle, node.name);
    if (used.contains(node.name) || !node.reachable) {
      memory_.numbers.erase(since);
      continue;
    }
    ++unused.nodes;
    const auto [at, is_new] = memory_.numbers.try_emplace(since, std::vector{now});
    if (now - at->second[0] >= seconds(rules_.idle)) unused.idle.push_back(node.name);
  }
  return unused;
}

void Loans::lend(const std::string& node, const FunctionName& job, std::vector<Action>& actions) {
  memory_.numbers.erase(key(kIdle, node));
  memory_.numbers[key(kLent, node)] = {seconds(snapshot_.now.time_since_epoch())};
  lent_.insert(node);
  Reason reason{"server-lent",
                "Server " + node + " goes on loan to training: inference has not used it for " +
                    std::to_string(rules_.idle / Seconds(1)) + " s, and jobs want workers.",
                {}};
  actions.push_back(
      {job, Loan{node, std::string(kForInference), std::string(kForTraining)}, reason});
}

// Returns lent nodes that go back, at most so many.
std::vector<std::string> Loans::chosen(int wanted) const {
  const std::vector<std::string> nodes(lent_.begin(), lent_.end());
  std::vector<LoanedServer> servers(nodes.size());
  std::map<std::string, size_t> jobs;  // those that have workers, numbered
  std::vector<std::set<std::string>> spans;
  const SnapshotIndex index(snapshot_);
  for (uint32_t i = 0; i < snapshot_.instances.size(); ++i) {
    const auto f = index.function_of(i);
    const auto d = index.device_of(i);
    if (!f || !d || snapshot_.functions[*f].spec.is_inference()) continue;
    const size_t job =
        jobs.try_emplace(to_string(snapshot_.functions[*f].spec.name), jobs.size()).first->second;
    spans.resize(jobs.size());
    const std::string& node = snapshot_.devices[*d].node;
    spans[job].insert(node);
    const auto at = std::ranges::find(nodes, node);
    if (at == nodes.end()) continue;
    std::vector<size_t>& there = servers[static_cast<size_t>(at - nodes.begin())].jobs;
    if (std::ranges::find(there, job) == there.end()) there.push_back(job);
  }
  std::vector<int> counts;
  for (const auto& span : spans) counts.push_back(static_cast<int>(span.size()));
  std::vector<ReclaimedServer> found;
  switch (rules_.reclaim) {
    case ReclaimRule::kFapes:
      found = reclaim_fapes(servers, wanted);
      break;
    case ReclaimRule::kLyra:
      found = reclaim_lyra(servers, wanted, counts);
      break;
    case ReclaimRule::kOneWay:
      found = reclaim_one_way(servers, wanted, random_);
      break;
    case ReclaimRule::kNone:
      break;  // all go back at once, by no rule
  }
  std::vector<std::string> names;
  for (const ReclaimedServer& r : found) names.push_back(nodes[r.server]);
  return names;
}

void Loans::reclaim(int wanted, const FunctionName& function, const Reason& why,
                    std::vector<Action>& actions) {
  for (const std::string& node : chosen(wanted)) give_back(node, function, why, actions);
}

void Loans::give_back(const std::string& node, const FunctionName& function, const Reason& why,
                      std::vector<Action>& actions) {
  memory_.numbers.erase(key(kLent, node));
  lent_.erase(node);
  Reason reason = why;
  reason.text = "Server " + node + " goes back to inference: " + why.text;
  actions.push_back(
      {function, Loan{node, std::string(kForTraining), std::string(kForInference)}, reason});
}

std::vector<Action> Loans::decide(const Snapshot& seen, const std::set<std::string>& lacking,
                                  const FunctionName& function) {
  std::vector<Action> actions;
  if (home_.empty() || seen.functions.empty()) return actions;
  const std::vector<const FunctionView*> jobs = open_jobs(seen);
  const Unused inference = unused(seen);
  const int missing =
      static_cast<int>(lacking.size()) + std::max(0, rules_.spare - inference.nodes);
  const bool lends = !jobs.empty() && rules_.reclaim != ReclaimRule::kNone;
  if (!lent_.empty() && !lends) {
    const bool wanted = !jobs.empty();
    const std::set<std::string> all = lent_;
    for (const std::string& node : all)
      give_back(node, wanted ? jobs.front()->spec.name : seen.functions.front().spec.name,
                {"server-returned", wanted ? "nothing is lent any more." : "no job wants it.", {}},
                actions);
    return actions;
  }
  if (!lent_.empty() && missing > 0)
    reclaim(missing, lacking.empty() ? seen.functions.front().spec.name : function,
            lacking.empty() ? Reason{"server-reclaimed", "too few of its servers are free.", {}}
                            : Reason{"server-reclaimed",
                                     to_string(function) + " finds no room on those that it has.",
                                     {{"servers", static_cast<double>(missing)}}},
            actions);
  else if (lends && missing == 0)
    for (size_t n = 0;
         n < inference.idle.size() && static_cast<int>(n) + rules_.spare < inference.nodes; ++n)
      lend(inference.idle[n], jobs.front()->spec.name, actions);
  return actions;
}

}  // namespace sluice::policy
