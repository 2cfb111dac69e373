// The table against std::map, under random changes that collide.
#include "hook/address_table.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/random.h"

namespace sluice::hook {
namespace {

TEST(AddressTable, KeepsWhatAMapKeeps) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    AddressTable<int> table{};
    std::map<uint64_t, int> map;
    for (int i = 0; i < 5000; ++i) {
      const uint64_t key = (1 + random.below(300)) << 21;
      if (random.chance(0.5)) {
        ASSERT_TRUE(table.insert(key, i));
        map[key] = i;
      } else {
        ASSERT_EQ(table.remove(key), map.erase(key) == 1);
      }
      const uint64_t other = (1 + random.below(300)) << 21;
      const auto known = map.find(other);
      const int* found = table.find(other);
      ASSERT_EQ(found != nullptr, known != map.end());
      if (found != nullptr) {
        ASSERT_EQ(*found, known->second);
      }
    }
    size_t seen = 0;
    table.for_each([&](uint64_t key, int value) { seen += map.at(key) == value ? 1 : 0; });
    ASSERT_EQ(seen, map.size());
  }
}

TEST(AddressTable, AnEmptyOneHasNothing) {
  AddressTable<int> table{};
  EXPECT_EQ(table.find(1), nullptr);
  EXPECT_FALSE(table.remove(1));
}

// Programs free nullptr.
TEST(AddressTable, HasNothingAtZero) {
  AddressTable<int> table{};
  ASSERT_TRUE(table.insert(1, 1));
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_FALSE(table.remove(0));
}

}  // namespace
}  // namespace sluice::hook
