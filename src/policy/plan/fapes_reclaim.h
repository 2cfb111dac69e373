// Which servers that training has on loan go back to inference: by FaPES's cost and gain (SoCC '24,
// §3.4), at random, or by Lyra's cost (EuroSys '23). A server goes back whole, and every job there
// is preempted: it goes on with what it has elsewhere, if that is enough for it (reading A18).
// Pure.
#pragma once

#include <span>
#include <vector>

#include "base/random.h"

namespace sluice::policy {

struct LoanedServer {
  std::vector<size_t> jobs;  // that have workers there, each once
  double lost = 0;           // device-rounds that their plans have there
};

// A server that goes back, as it was when it was chosen.
struct ReclaimedServer {
  size_t server = 0;
  double cost = 0;  // jobs that it preempts; by Lyra's rule, parts of jobs
  int gain = 0;     // servers that are then free of jobs, itself included
};

// Each returns as many servers as are wanted, or all, in the order in which they are chosen.

// Free servers first. Then the one with the largest gain that is still wanted; of equal ones that
// with the least cost, the least lost, the first. If every gain is beyond what is wanted: the least
// cost, then the least gain (reading A17).
std::vector<ReclaimedServer> reclaim_fapes(std::span<const LoanedServer> servers, int wanted);

// Any servers: FaPES's baseline of loans in one way.
std::vector<ReclaimedServer> reclaim_one_way(std::span<const LoanedServer> servers, int wanted,
                                             Random& random);

// The least cost first: the sum over a server's jobs of 1 ÷ servers that the job has. `spans` is
// that number by job, servers that are not on loan included.
std::vector<ReclaimedServer> reclaim_lyra(std::span<const LoanedServer> servers, int wanted,
                                          std::span<const int> spans);

// Returns how many jobs have workers on any of these servers.
int preempted_jobs(std::span<const LoanedServer> servers,
                   std::span<const ReclaimedServer> reclaimed);

}  // namespace sluice::policy
