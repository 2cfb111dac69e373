// pollux_search: the genetic search of Pollux (OSDI '21, §4.2), with the operators of its published
// artifact. It looks for the allocation of devices to jobs with the largest fitness:
//
//   fitness = (1/J · Σ_j (s_j + 0.001)^p)^(1/p),  p = −1
//
// s_j is the speed-up of job j by its workers. p = −1 is the harmonic mean, which favours the jobs
// that have little. 0.001 stands for a job without any.
//
// The artifact ranks by utilisation as well, and then takes the allocation with the largest
// fitness. Here fitness alone ranks. A population has no allocation twice, and keeps its best, so
// that its best fitness never falls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "policy/plan/deal.h"

namespace sluice::policy {

// Workers by job and node: for each job a row of all nodes.
using Allocation = std::vector<uint16_t>;

struct PolluxJob {
  const Contender* job = nullptr;
  int least = 1, most = 1;  // workers; fewer are none
  double speedup = 1;       // of a goodput of 1
  // Factors of the speed-up where the row is that of `now`, and where it is another one: what a
  // restart leaves.
  double same = 1, changed = 1;
};

struct PolluxProblem {
  std::vector<PolluxJob> jobs;  // where several cannot all have a node, the first has it
  std::vector<int> devices;     // by node
  Allocation now;
  int most_nodes = 16;  // of a job
};

// Over a problem and a generator that must outlive it. Not thread-safe.
class PolluxSearch {
 public:
  struct Population {
    std::vector<Allocation> all;  // the fittest first
    std::vector<double> best;     // fitness: at the beginning and after each generation
  };

  PolluxSearch(const PolluxProblem& problem, Random& random);

  // Begins with these allocations, which may be any of the right size, and the present one.
  // REQUIRES: at least a job, a node and a size of 1.
  Population evolve(std::vector<Allocation> begin, int size, int generations);

  double fitness(const Allocation& a) const;
  // Changes some rows: back to the present one, without some nodes, or with more workers.
  void mutate(Allocation& a);
  // Makes an allocation a possible one: at most one job of several nodes on each node, as two would
  // disturb each other's sums; a job's most workers and nodes; each node's devices; a job's least
  // workers, or none.
  void repair(Allocation& a);

 private:
  struct Individual {
    double fitness;
    uint64_t hash;
    Allocation allocation;
  };

  std::span<uint16_t> row(Allocation& a, size_t j) const { return {&a[j * nodes_], nodes_}; }
  std::span<const uint16_t> row(const Allocation& a, size_t j) const {
    return {&a[j * nodes_], nodes_};
  }
  void add(Allocation a);
  void keep_the_fittest(size_t size);
  void bear(size_t parents);
  void increase(Allocation& a);
  void bound(std::span<uint16_t> row, int most);

  const PolluxProblem& problem_;
  Random& random_;
  const size_t nodes_;
  std::vector<Individual> living_;
  std::vector<uint64_t> hashes_;  // of the living, by value
  // Of one call, by node.
  std::vector<int> left_, holders_;
  std::vector<bool> spanned_;
  std::vector<size_t> open_;
};

}  // namespace sluice::policy
