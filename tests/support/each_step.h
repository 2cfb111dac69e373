// A row of a death matrix: the same cell at each labelled step, in turn. For tests only.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/steps.h"

namespace sluice {

// Runs until a cell fails. By the end some process of the plan must have reached every step.
template <class Cell>
void at_each(const Plan& plan, const std::vector<std::string>& labels, Cell cell) {
  ASSERT_FALSE(labels.empty());
  for (const std::string& label : labels) {
    SCOPED_TRACE(label);
    cell(label);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_THAT(plan.reached(), testing::IsSupersetOf(labels));
}

}  // namespace sluice
