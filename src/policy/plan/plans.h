// The table of plans. A plan decides which training job has workers on which devices.
// docs/adding-a-policy.md adds one.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/action.h"
#include "policy/input.h"

namespace sluice::policy {

// The input's functions are the jobs of one bundle and plan, with their settings. Its memory is
// apart from that of the bundle's scaling. Pure.
using PlanFunction = std::vector<Action> (*)(Input& input);

struct Plan {
  std::string_view name;
  std::string_view summary;  // one line for --help
  PlanFunction run = nullptr;
  Settings settings;
  int memory_version = 0;
};

std::span<const Plan> plans();
const Plan* find_plan(std::string_view name);  // nullptr: unknown name
std::vector<std::string> plan_names();

}  // namespace sluice::policy
