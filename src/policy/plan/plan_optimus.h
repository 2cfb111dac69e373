// plan_optimus: Optimus (EuroSys '18) without parameter servers. Every job has its least workers;
// each further device goes to the job whose time left it shortens most.
#pragma once

#include "policy/plan/deal.h"

namespace sluice::policy {

struct OptimusSettings {
  Nanos round = Seconds(600);  // its published interval

  static std::span<const Setting<OptimusSettings>> settings();
};

// Returns how many workers each job has.
std::vector<int> optimus(const Table& table);

std::vector<Action> plan_optimus(Input& input);

}  // namespace sluice::policy
