#include "control/refusals.h"

#include "base/check.h"

namespace sluice::control {

Error refusal_of(const Wanted& what) {
  std::string missing;
  if (std::holds_alternative<StartGang>(what))
    missing = "instances start one by one";
  else if (std::holds_alternative<MoveInstance>(what))
    missing = "start an instance on the other device, and stop this one when that is ready";
  else if (std::holds_alternative<Loan>(what))
    missing = "there are no virtual clusters";
  else if (std::holds_alternative<SetTraining>(what))
    missing = "there are no training jobs";
  SLUICE_CHECK(!missing.empty(), std::string(name_of(what)));
  return {ErrorKind::kInvalid, std::string(name_of(what)) + " is not executed: " + missing};
}

std::string subject_of(const Action& action) {
  if (const auto* move = std::get_if<MoveInstance>(&action.what)) return move->instance;
  if (const auto* loan = std::get_if<Loan>(&action.what)) return loan->device;
  if (const auto* training = std::get_if<SetTraining>(&action.what)) return training->instance;
  return to_string(action.function);
}

}  // namespace sluice::control
