#include "node/uid_pool.h"

#include <gtest/gtest.h>

namespace sluice::node {
namespace {

TEST(UidPool, AUidComesAgainOnlyAfterTheWholeRange) {
  UidPool pool(100, 3);
  EXPECT_EQ(*pool.take(), 100u);
  pool.give_back(100);
  EXPECT_EQ(*pool.take(), 101u);
  EXPECT_EQ(*pool.take(), 102u);
  EXPECT_EQ(*pool.take(), 100u);
}

TEST(UidPool, ASharedUidIsFreeOnceItsLastUserHasGivenItBack) {
  UidPool pool(100, 1);
  EXPECT_EQ(*pool.take(), 100u);
  pool.keep(100);
  pool.give_back(100);
  EXPECT_EQ(pool.take().error().kind, ErrorKind::kExhausted);
  pool.give_back(100);
  EXPECT_EQ(*pool.take(), 100u);
}

TEST(UidPool, WhatIsKeptIsNotTaken) {
  UidPool pool(100, 2);
  pool.keep(100);  // of an adopted instance
  EXPECT_EQ(*pool.take(), 101u);
  EXPECT_EQ(pool.take().error().kind, ErrorKind::kExhausted);
}

TEST(UidPool, AUidThatOwnsFilesIsLeftOutOfTheNextRound) {
  std::set<uid_t> owners = {101};
  UidPool pool(100, 3, [&] { return owners; });
  EXPECT_EQ(*pool.take(), 100u);
  EXPECT_EQ(*pool.take(), 102u);
  owners = {102};
  pool.give_back(102);
  EXPECT_EQ(*pool.take(), 101u);
  EXPECT_EQ(pool.take().error().kind, ErrorKind::kExhausted);
  owners.clear();
  EXPECT_EQ(*pool.take(), 102u);
}

TEST(UidPool, AUidOfAHomeIsFreeOnceAllItsProgramsHaveEnded) {
  UidPool pool(100, 1);
  pool.keep(100);
  pool.keep(100);
  pool.give_back(100);
  EXPECT_FALSE(pool.take().ok());
  pool.give_back(100);
  EXPECT_EQ(*pool.take(), 100u);
}

}  // namespace
}  // namespace sluice::node
