#include "arbiters/cost_audit.h"

#include <algorithm>
#include <utility>

namespace sluice::policy {
namespace {

void add(CostAudit::Interval& sum, const CostAudit::Interval& more) {
  sum.passed += more.passed;
  sum.busy += more.busy;
  sum.finished += more.finished;
}

// Else it says nothing: the host may have been the slower one.
bool is_busy(const CostAudit::Interval& alone) {
  return alone.busy * 5 >= alone.passed * 4;
}

}  // namespace

void CostAudit::glance(const Interval& alone, Nanos longest, double least, Time now) {
  add(glanced_, alone);
  if (glanced_.passed < std::max<Nanos>(kExamination, kUnitsByChance * longest)) return;
  const Interval all = std::exchange(glanced_, {});
  const double took = seconds(all.busy - kAllowed - longest);
  if (is_busy(all) && took > kTolerated * least * seconds(all.finished))
    trusted_until_ = now;
  else
    trusted_until_ = std::max(trusted_until_, now + kTrustLeast);
}

void CostAudit::measure(const Interval& alone) {
  add(examined_, alone);
}

bool CostAudit::complete(Nanos longest) {
  if (examined_.passed < std::max(kExamination, longest)) return false;
  const Interval all = std::exchange(examined_, {});
  // Where none ended, the longest unit stands for the one that runs.
  const Nanos ended = all.finished > Nanos(0) ? all.finished : longest;
  const double cost = seconds(std::max<Nanos>(ended, Micros(1)));
  ratio_ = is_busy(all) ? seconds(std::max(all.busy - kAllowed, Nanos(0))) / cost : 0;
  all_busy_ = all_busy_ / 2 + seconds(all.busy);
  all_finished_ = all_finished_ / 2 + cost;
  return true;
}

void CostAudit::judge(double least, Time now) {
  const bool wrong = ratio_ > kTolerated * least;
  if (wrong && !misreports_ && !std::exchange(suspect_, true)) {
    all_busy_ = all_finished_ = 0;
    trusted_until_ = now;
    return;
  }
  suspect_ = wrong;
  misreports_ |= wrong;
  if (misreports_) factor_ = std::max(all_busy_ / all_finished_ / least, 1.0);
  trusted_until_ = now + trusts_for_;
  trusts_for_ = std::min(2 * trusts_for_, kTrustMost);
}

}  // namespace sluice::policy
