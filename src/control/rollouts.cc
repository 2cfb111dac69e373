#include "control/rollouts.h"

#include "control/routes.h"

namespace sluice::control {

int Rollouts::wanted(const StoredFunction& f) const {
  return f.newest == f.serving || failed(f.name).empty() ? f.newest : f.serving;
}

const std::string& Rollouts::failed(const FunctionName& f) const {
  static const std::string kNot;
  const auto found = rollouts_.find(f);
  return found == rollouts_.end() ? kNot : found->second.failed;
}

void Rollouts::restore(const FunctionName& f, const std::string& failed) {
  rollouts_[f].failed = failed;
}

bool Rollouts::give_up(const StoredFunction& f, int revision, int failures,
                       const std::string& error) {
  if (revision != f.newest || f.newest == f.serving || failures < settings_.tries) return false;
  rollouts_[f.name].failed = "Revision " + std::to_string(f.newest) + " could not start in " +
                             std::to_string(failures) + " tries (" + error + "); revision " +
                             std::to_string(f.serving) + " goes on serving.";
  return true;
}

bool Rollouts::takes_over(const FunctionState& f, Time now) {
  const StoredFunction& stored = f.stored;
  if (stored.newest == stored.serving) return false;
  const FunctionSpec& newest = spec_of(stored, stored.newest);
  if (!newest.is_inference()) return true;  // there are no requests that would wait
  if (newest.inference().canary_traffic_percent < 100) return false;
  if (!f.present.newest_ready) return false;
  Rollout& rollout = rollouts_[stored.name];
  if (rollout.ready_since == Time{}) rollout.ready_since = now;
  return !f.present.newest_starts || now - rollout.ready_since >= settings_.patience;
}

}  // namespace sluice::control
