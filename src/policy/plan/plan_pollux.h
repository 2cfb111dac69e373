// plan_pollux: Pollux (OSDI '21): a genetic search for the deal with the best harmonic mean of all
// jobs' speed-ups (pollux_search.h), as its published artifact has it.
//
//   - A speed-up is a job's goodput ÷ that of a fair share: devices ÷ jobs, on one node. It counts
//     × nodes ÷ devices, so that a fair share of one node's devices is 1.
//   - A job whose devices change loses `restart`. Its speed-up counts
//     × (age − restarts × `restart`) ÷ (age + `restart`), as if it went on changing as often.
//   - A job may have twice the workers that it had at most before, so that its step model is
//   measured
//     on the way. The first deal is 1, or leastDevices.
//   - A job spans at most 16 nodes, and no node has two jobs that span several.
//   - A search begins with what the last one ended with. Of equal claims to a node the job that has
//     had the fewest device-seconds wins, after its priority.
//
// FaPES compares with a Pollux that stops and restarts every job in each round: `restart_all`, with
// a `round` of 600 s. There a job that keeps its devices loses as much as one that changes.
#pragma once

#include "policy/plan/deal.h"

namespace sluice::policy {

struct PolluxSettings {
  Nanos round = Seconds(60);
  int generations = 100;
  int population = 100;
  Nanos restart = Seconds(30);
  bool restart_all = false;

  static std::span<const Setting<PolluxSettings>> settings();
};

Dealt pollux(Table& table, const PolluxSettings& settings);

std::vector<Action> plan_pollux(Input& input);

}  // namespace sluice::policy
