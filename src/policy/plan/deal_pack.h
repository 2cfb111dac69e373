// Where dealt devices are, for planners that decide numbers alone. Pure.
#pragma once

#include <vector>

#include "policy/plan/deal.h"

namespace sluice::policy {

// Places so many workers of each job of the table. A job whose number has not changed stays where
// it is. The others come by size, the largest first, each on the fullest node that has room for all
// of it, else on the emptiest nodes. Less than its number is given where the devices do not
// suffice.
Dealt pack(const Table& table, const std::vector<int>& workers);

}  // namespace sluice::policy
