#include "policy/plan/fapes_job_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "policy/plan/fapes_placement.h"

namespace sluice::policy {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kNoNumber = static_cast<size_t>(-1);

// The job at the end of a round.
struct PlanCell {
  double cost = kInfinity;  // of all rounds so far
  double done = 0;          // samples
  int changes = 0;
  size_t placement = kNoNumber;  // in that round
  size_t from = kNoNumber;       // the cell of the round before; nothing: it began

  // Of two with equally many units done, the cheaper; then that with fewer changes or more samples.
  bool operator<(const PlanCell& o) const {
    return std::tuple(cost, changes, -done) < std::tuple(o.cost, o.changes, -o.done);
  }
};

// What a job may do in a round.
struct RoundStep {
  size_t placement;
  double price, throughput;
  bool changes;
};

class BestPlan {
 public:
  BestPlan(const Board& board, const Contender& job, const FapesSizes& sizes,
           const FapesRules& rules)
      : board_(board),
        job_(job),
        sizes_(sizes),
        rules_(rules),
        round_(seconds(rules.round)),
        work_(std::min(job.left(), sizes.throughput * round_ * most_rounds(board))),
        units_(static_cast<size_t>(rules.units)),
        cheapest_(board.rounds() + 1, kInfinity) {
    for (size_t r = board.rounds(); r-- > 0;)
      cheapest_[r] = std::min(cheapest_[r + 1], board.cheapest(r));
  }

  std::optional<Schedule> run(bool may_wait) {
    for (size_t round = 0; round < board_.rounds(); ++round) {
      if ((static_cast<double>(round) + 1) * round_ >= best_total_) break;
      cells_.emplace_back(units_);
      steps_.clear();
      if (round == 0 || may_wait) go_on(round, {.cost = 0}, kNoNumber);
      if (round == 0) continue;
      for (size_t i = 0; i < units_; ++i)
        if (cells_[round - 1][i].placement != kNoNumber) go_on(round, cells_[round - 1][i], i);
    }
    if (best_total_ == kInfinity) return std::nullopt;
    return schedule();
  }

 private:
  // That a plan lasts at its fastest size. A longer job's end is beyond the board; half of it is
  // left for slower sizes and for waiting.
  static double most_rounds(const Board& board) {
    return std::max(static_cast<double>(board.rounds()) / 2, 1.0);
  }

  // Extends the plan that ends in a cell by one round, in all ways.
  void go_on(size_t round, const PlanCell& cell, size_t index) {
    if (least_total(round, cell) >= best_total_) return;
    for (const RoundStep& step : steps(round, cell.placement)) {
      const double useful = std::max(round_ - (step.changes ? seconds(rules_.restart) : 0), 0.0);
      const PlanCell next{.cost = cell.cost + step.price,
                          .done = cell.done + step.throughput * useful,
                          .changes = cell.changes + step.changes,
                          .placement = step.placement,
                          .from = index};
      if (next.done >= work_ * (1 - 1e-9)) {
        complete(round, next);
      } else if (least_total(round + 1, next) < best_total_) {
        const auto unit = static_cast<size_t>(next.done / work_ * static_cast<double>(units_));
        PlanCell& best = cells_[round][std::min(unit, units_ - 1)];
        if (next < best) best = next;
      }
    }
  }

  // A bound of what the plan that has been in `cell` before that round comes to: as if the rest
  // were done at the fastest size, and paid for at the most efficient one and the lowest price.
  double least_total(size_t round, const PlanCell& cell) const {
    const double left = work_ - cell.done;
    const double rounds = std::ceil(left / (sizes_.throughput * round_) - 1e-9);
    const double price = left * sizes_.device_seconds / round_ * cheapest_[round];
    return (static_cast<double>(round) + rounds) * round_ + rules_.kappa * (cell.cost + price);
  }

  void complete(size_t round, const PlanCell& cell) {
    const double total = (static_cast<double>(round) + 1) * round_ + rules_.kappa * cell.cost;
    if (std::tuple(total, round, cell.changes) >=
        std::tuple(best_total_, best_round_, best_.changes))
      return;
    best_total_ = total;
    best_round_ = round;
    best_ = cell;
  }

  // Plans of several cells come to one placement, from which they go on alike.
  const std::vector<RoundStep>& steps(size_t round, size_t placement) {
    const auto [at, is_new] = steps_.try_emplace(placement);
    if (is_new) at->second = make_steps(round, placement);
    return at->second;
  }

  std::vector<RoundStep> make_steps(size_t round, size_t placement) {
    static const Placed kNone;
    const bool begins = placement == kNoNumber;
    const Placed before = !begins ? placements_[placement] : round == 0 ? job_.now : kNone;
    const FapesRound in{board_, round, job_, before};
    const Placed kept = begins ? kNone : within_free(in, before);
    const int now = workers_in(kept);
    std::vector<RoundStep> steps;
    const auto add = [&](const Placed& placed) { add_step(round, before, placed, steps); };
    Placed placed = kept;
    for (const int size : sizes_.sizes) {
      if (size < now) continue;
      if (!grow(in, size, placed)) break;
      add(placed);
      if (!begins || placed.size() == 1) continue;
      if (const auto together = on_one_node(in, size)) add(*together);
    }
    placed = kept;
    for (auto size = sizes_.sizes.rbegin(); size != sizes_.sizes.rend(); ++size) {
      if (*size >= now) continue;
      shrink(in, *size, placed);
      add(placed);
    }
    return steps;
  }

  void add_step(size_t round, const Placed& before, const Placed& placed,
                std::vector<RoundStep>& steps) {
    const double throughput = job_.throughput(workers_in(placed), static_cast<int>(placed.size()));
    if (throughput <= 0) return;
    const auto [at, is_new] = numbers_.try_emplace(placed, placements_.size());
    if (is_new) placements_.push_back(placed);
    steps.push_back({at->second, board_.price(round, placed), throughput, placed != before});
  }

  Schedule schedule() const {
    Schedule schedule(best_round_ + 1);
    PlanCell cell = best_;
    for (size_t round = best_round_;; --round) {
      schedule[round] = placements_[cell.placement];
      if (cell.from == kNoNumber) return schedule;
      cell = cells_[round - 1][cell.from];
    }
  }

  const Board& board_;
  const Contender& job_;
  const FapesSizes& sizes_;
  const FapesRules& rules_;
  const double round_, work_;
  const size_t units_;
  std::vector<double> cheapest_;                    // price in that round or later
  std::vector<std::vector<PlanCell>> cells_;        // by round and units done
  std::map<size_t, std::vector<RoundStep>> steps_;  // of the present round, by the placement before
  std::vector<Placed> placements_;
  std::map<Placed, size_t> numbers_;  // of the placements
  double best_total_ = kInfinity;
  size_t best_round_ = kNoNumber;
  PlanCell best_;
};

}  // namespace

std::optional<Schedule> fapes_job_plan(const Board& board, const Contender& job,
                                       const FapesSizes& sizes, const FapesRules& rules,
                                       bool may_wait) {
  if (sizes.sizes.empty() || board.rounds() == 0) return std::nullopt;
  return BestPlan(board, job, sizes, rules).run(may_wait);
}

}  // namespace sluice::policy
