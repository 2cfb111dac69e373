#include "control/api/plan_listings.h"

#include <algorithm>
#include <set>

#include "control/api/listings.h"
#include "policy/loans.h"
#include "policy/plan/fapes_memory.h"

namespace sluice::control {
namespace {

using nlohmann::json;

std::set<std::string> lent_now(const Control& control) {
  const auto memory = control.memories().find(policy::kLoanMemory);
  return memory == control.memories().end() ? std::set<std::string>()
                                            : policy::lent_nodes(memory->second);
}

// Returns how many workers of the job each node has.
std::map<std::string, int> servers_of(const Control& control, const FunctionName& job) {
  std::map<std::string, int> servers;
  for (const ObservedInstance& o : control.seen().instances)
    if (o.instance.function == job && alive(o)) ++servers[o.node];
  return servers;
}

json job_row(const Control& control, const FunctionName& name, UnixMillis wall,
             const std::vector<policy::BoardView>& boards) {
  const json row = function_row(control, name, wall);
  json out{{"namespace", name.space},
           {"name", name.name},
           {"plan", row["plan"]},
           {"state", row["job"]["state"]},
           {"servers", servers_of(control, name)},
           {"unavailable", row["unavailable"]},
           {"last_decision", row["last_decision"]}};
  if (row["job"].contains("left_s")) out["left_s"] = row["job"]["left_s"];
  for (const policy::BoardView& board : boards) {
    const auto planned = board.rounds_of.find(to_string(name));
    if (planned == board.rounds_of.end() || planned->second.empty()) continue;
    out["rounds"] = planned->second;
    if (!out.contains("left_s"))
      out["left_s"] = static_cast<double>(planned->second.size()) * board.round_seconds;
  }
  return out;
}

json to_json(const policy::BoardView& board) {
  json nodes = json::array();
  for (const auto& [name, node] : board.nodes)
    nodes.push_back(
        {{"node", name}, {"devices", node.devices}, {"held", node.held}, {"prices", node.prices}});
  return {{"round_s", board.round_seconds}, {"nodes", nodes}};
}

}  // namespace

json node_rows(const Control& control, UnixMillis wall) {
  const std::set<std::string> lent = lent_now(control);
  json out = json::array();
  for (const ObservedNode& n : control.seen().nodes) {
    const auto label = n.node.labels.find(std::string(policy::kVirtualCluster));
    const std::string home = label == n.node.labels.end() ? "" : label->second;
    int instances = 0, workers = 0;
    for (const ObservedInstance& o : control.seen().instances) {
      if (o.node != n.node.name || !alive(o)) continue;
      const auto f = control.functions().find(o.instance.function);
      const bool trains = f != control.functions().end() &&
                          !spec_of(f->second.stored, f->second.stored.newest).is_inference();
      ++(trains ? workers : instances);
    }
    out.push_back({{"name", n.node.name},
                   {"devices", n.node.devices},
                   {"virtual_cluster", home},
                   {"user", lent.contains(n.node.name) ? std::string(policy::kForTraining) : home},
                   {"instances", instances},
                   {"workers", workers},
                   {"reachable", n.node.reachable},
                   {"stale_ms", n.node.reachable ? 0 : wall - n.seen}});
  }
  return out;
}

json plan_rows(const Control& control, UnixMillis wall) {
  std::map<std::string, int> devices;
  for (const Device& d : control.seen().devices) ++devices[d.node];
  std::vector<policy::BoardView> boards;
  for (const auto& [key, memory] : control.memories())
    if (auto board = policy::board_view(memory, devices)) boards.push_back(std::move(*board));
  json jobs = json::array();
  for (const auto& [name, f] : control.functions()) {
    if (spec_of(f.stored, f.stored.newest).is_inference()) continue;
    json row = job_row(control, name, wall, boards);
    if (row["state"] != "finished" && row["state"] != "failed") jobs.push_back(std::move(row));
  }
  json out{{"jobs", std::move(jobs)}, {"boards", json::array()}};
  for (const policy::BoardView& board : boards) out["boards"].push_back(to_json(board));
  return out;
}

json checkpoint_rows(const Control& control, const FunctionName& f) {
  const ListedCheckpoints found = control.checkpoints(f);
  json all = json::array();
  for (const ListedCheckpoint& c : found.all)
    all.push_back({{"step", c.at.step},
                   {"epoch", c.at.epoch},
                   {"sample", c.at.sample},
                   {"bytes", c.bytes},
                   {"saved", c.saved},
                   {"set_aside", c.set_aside},
                   {"copied", c.copied}});
  return {{"checkpoints", all}, {"trouble", found.trouble}};
}

}  // namespace sluice::control
