#include "model/routing.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

RoutingTable table(int64_t version, std::vector<std::pair<std::string, int>> queues) {
  RoutingTable t{.version = version};
  for (const auto& [name, max_queue] : queues)
    t.functions[name] = {.name = {.name = name}, .max_queue = max_queue};
  return t;
}

TEST(RoutingChange, HoldsWhatDiffersAndNoMore) {
  const RoutingTable before = table(3, {{"changed", 1}, {"gone", 1}, {"same", 1}});
  const RoutingTable after = table(4, {{"changed", 2}, {"new", 1}, {"same", 1}});
  const RoutingChange change = change_between(before, after);
  EXPECT_EQ(change.since, 3);
  EXPECT_EQ(change.version, 4);
  EXPECT_EQ(change.changed, table(0, {{"changed", 2}, {"new", 1}}).functions);
  EXPECT_EQ(change.removed, std::vector<FunctionName>{{.name = "gone"}});
  RoutingTable applied = before;
  apply(applied, change);
  EXPECT_EQ(applied, after);
}

}  // namespace
}  // namespace sluice
