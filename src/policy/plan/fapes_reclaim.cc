#include "policy/plan/fapes_reclaim.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace sluice::policy {
namespace {

// The servers on loan while some of them are chosen.
class Loans {
 public:
  explicit Loans(std::span<const LoanedServer> servers) : chosen_(servers.size()) {
    for (const LoanedServer& s : servers) {
      jobs_.push_back(s.jobs);
      std::ranges::sort(jobs_.back());
    }
  }

  std::vector<size_t> left() const {
    std::vector<size_t> left;
    for (size_t s = 0; s < jobs_.size(); ++s)
      if (!chosen_[s]) left.push_back(s);
    return left;
  }
  // Ascending, without those that are preempted.
  const std::vector<size_t>& jobs(size_t server) const { return jobs_[server]; }
  int cost(size_t server) const { return static_cast<int>(jobs_[server].size()); }
  int gain(size_t server) const {
    int gain = 0;
    for (size_t s = 0; s < jobs_.size(); ++s)
      gain += !chosen_[s] && std::ranges::includes(jobs_[server], jobs_[s]);
    return gain;
  }

  void choose(size_t server) {
    chosen_[server] = true;
    const std::vector<size_t> preempted = jobs_[server];
    for (std::vector<size_t>& jobs : jobs_)
      std::erase_if(jobs, [&](size_t j) { return std::ranges::binary_search(preempted, j); });
  }

 private:
  std::vector<std::vector<size_t>> jobs_;
  std::vector<bool> chosen_;
};

// Chooses the server of the least rank(loans, server, still wanted), again and again.
template <class Rank, class Cost>
std::vector<ReclaimedServer> reclaim_by(std::span<const LoanedServer> servers, int wanted,
                                        const Rank& rank, const Cost& cost) {
  Loans loans(servers);
  std::vector<ReclaimedServer> reclaimed;
  while (static_cast<int>(reclaimed.size()) < wanted) {
    const std::vector<size_t> left = loans.left();
    if (left.empty()) break;
    const int still = wanted - static_cast<int>(reclaimed.size());
    const size_t best =
        *std::ranges::min_element(left, {}, [&](size_t s) { return rank(loans, s, still); });
    reclaimed.push_back({best, cost(loans, best), loans.gain(best)});
    loans.choose(best);
  }
  return reclaimed;
}

double cost_of(const Loans& loans, size_t server) {
  return loans.cost(server);
}

}  // namespace

std::vector<ReclaimedServer> reclaim_fapes(std::span<const LoanedServer> servers, int wanted) {
  const auto rank = [&](const Loans& loans, size_t s, int still) {
    const int cost = loans.cost(s), gain = loans.gain(s);
    const bool too_many = gain > still;
    return std::tuple(cost > 0, too_many, too_many ? cost : -gain, too_many ? gain : cost,
                      servers[s].lost, s);
  };
  return reclaim_by(servers, wanted, rank, cost_of);
}

std::vector<ReclaimedServer> reclaim_one_way(std::span<const LoanedServer> servers, int wanted,
                                             Random& random) {
  std::vector<uint64_t> draws;
  for (size_t s = 0; s < servers.size(); ++s) draws.push_back(random.next());
  const auto rank = [&](const Loans&, size_t s, int) { return std::tuple(draws[s], s); };
  return reclaim_by(servers, wanted, rank, cost_of);
}

std::vector<ReclaimedServer> reclaim_lyra(std::span<const LoanedServer> servers, int wanted,
                                          std::span<const int> spans) {
  const auto cost = [&](const Loans& loans, size_t s) {
    double sum = 0;
    for (const size_t j : loans.jobs(s)) sum += 1.0 / std::max(j < spans.size() ? spans[j] : 1, 1);
    return sum;
  };
  const auto rank = [&](const Loans& loans, size_t s, int) {
    return std::tuple(cost(loans, s), servers[s].lost, s);
  };
  return reclaim_by(servers, wanted, rank, cost);
}

int preempted_jobs(std::span<const LoanedServer> servers,
                   std::span<const ReclaimedServer> reclaimed) {
  std::set<size_t> jobs;
  for (const ReclaimedServer& r : reclaimed)
    jobs.insert(servers[r.server].jobs.begin(), servers[r.server].jobs.end());
  return static_cast<int>(jobs.size());
}

}  // namespace sluice::policy
