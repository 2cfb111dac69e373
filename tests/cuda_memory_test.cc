// One program's use of its slice's memory, of every kind, under limits that change; the parts that
// pools, contexts and maps keep.
#include "base/random.h"
#include "tests/support/memory_program.h"

namespace sluice {
namespace {

class EveryKind : public CudaMemory, public testing::WithParamInterface<const char*> {};

TEST_P(EveryKind, UpToTheLimitAndNotBeyondAndTheProgramLives) {
  Program program(folder_);
  const std::string kind = GetParam();
  const Bytes room = limit_ - kContext;
  for (Bytes mib = 0; mib < room; mib += 16)
    ASSERT_EQ(program.allocate(kind, 16), CUDA_SUCCESS) << mib;
  EXPECT_EQ(held(), limit_);
  EXPECT_EQ(on_device(), limit_);
  EXPECT_EQ(program.allocate(kind, 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), limit_);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate(kind, 18), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.allocate(kind, 16), CUDA_SUCCESS);
}

INSTANTIATE_TEST_SUITE_P(CudaMemory, EveryKind,
                         testing::Values("plain", "pitched", "managed", "pooled", "virtual",
                                         "array", "flat", "mipmapped", "graph"),
                         [](const auto& info) { return std::string(info.param); });

// Granted in advance, so that a program need not ask for each; never so much that it deprives
// others.
TEST_F(CudaMemory, HeadroomIsHeldAndGivenBack) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_SUCCESS);
  EXPECT_GT(held(), kContext + 2);
  EXPECT_LE(held(), kContext + 2 + limit_ / 16);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(program.allocate("plain", 8), CUDA_SUCCESS);
  for (int i = 1; i <= 20; ++i)
    EXPECT_EQ(program.ask("free " + std::to_string(i)).result, CUDA_SUCCESS);
  EXPECT_LE(held(), kContext + 2 + 2 * limit_ / 16);
}

TEST_F(CudaMemory, ALowerLimitRefusesNewMemoryAndKillsNobody) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 128), CUDA_SUCCESS);
  set_limit(64);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.allocate("pooled", 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(on_device(), kContext + 128);
  EXPECT_EQ(program.ask("info").numbers[0], 0);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 64 - kContext), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
  set_limit(128);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
}

// What is held and not used is other programs', too.
TEST_F(CudaMemory, ALowerLimitLeavesNoHeadroom) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 126), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_SUCCESS);
  EXPECT_GT(held(), kContext + 128);
  set_limit(64);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(held(), kContext + 128) << "after a refusal";
  EXPECT_EQ(program.ask("free 1").result, CUDA_SUCCESS);
  EXPECT_EQ(held(), kContext + 126) << "after what was freed";
}

// The driver gives an address again only if what was there is gone.
TEST_F(CudaMemory, WhatWasFreedUnseenIsGivenBackWhenItsAddressIsUsedAgain) {
  Program program(folder_);
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(program.allocate("plain", 100), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("lose " + std::to_string(i)).result, CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext);
    EXPECT_GE(held(), kContext + 100) << "the hook did not see it";
  }
  EXPECT_EQ(program.allocate("plain", 100), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("managed", limit_ - kContext - 100), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CudaMemory, ProgramsAreToldOfTheSlice) {
  Program program(folder_), other(folder_);
  Answer info = program.ask("info");
  EXPECT_EQ(info.numbers[0], limit_ - kContext);
  EXPECT_EQ(info.numbers[1], limit_);
  EXPECT_EQ(info.numbers[2], limit_);
  EXPECT_EQ(program.allocate("plain", 32), CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext - 32);
  EXPECT_EQ(other.allocate("virtual", 32), CUDA_SUCCESS);
  EXPECT_LE(program.ask("info").numbers[0], limit_ - 2 * kContext - 64);
  set_limit(2 * kDevice);  // never more than the device has
  info = program.ask("info");
  EXPECT_EQ(info.numbers[0], kDevice - on_device());
  EXPECT_EQ(info.numbers[1], kDevice);
}

TEST_F(CudaMemory, WhatAContextHadGoesWithIt) {
  Program program(folder_);
  for (const char* kind : {"plain", "managed", "array"})
    EXPECT_EQ(program.allocate(kind, 64), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(program.ask("reset").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext);
  for (const char* kind : {"plain", "managed", "array"})
    EXPECT_EQ(program.allocate(kind, 64), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CudaMemory, SoDoesWhatContextsOfItsOwnHadHoweverTheyEnd) {
  Program program(folder_);
  for (const char* end : {"destroy", "detach"})
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(program.ask(std::string("own 200 ") + end).result, CUDA_SUCCESS) << end << i;
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.allocate("plain", 200), CUDA_SUCCESS);
}

TEST_F(CudaMemory, WhatPoolsKeepForLaterIsForAllKinds) {
  Program program(folder_);
  EXPECT_EQ(program.ask("keep").result, CUDA_SUCCESS);
  int which = 0;
  for (const char* kind : {"plain", "pitched", "managed", "virtual", "array", "pooled", "graph"}) {
    EXPECT_EQ(program.allocate("pooled", 128), CUDA_SUCCESS);
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
    EXPECT_EQ(on_device(), kContext + 128) << "it is kept";
    EXPECT_EQ(program.allocate(kind, 192), CUDA_SUCCESS) << kind;
    EXPECT_EQ(program.ask("free " + std::to_string(which++)).result, CUDA_SUCCESS);
  }
}

// A pool is asked for its size whenever memory is freed, and a capture forbids that question.
TEST_F(CudaMemory, APoolThatKeepsSomeDoesNotEndACapture) {
  Program program(folder_);
  EXPECT_EQ(program.ask("keep").result, CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("pooled", 64), CUDA_SUCCESS);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("capture 32 0").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 64) << "it is kept, and charged";
}

// More pools than one pass reads.
TEST_F(CudaMemory, WhatManyPoolsKeepForLaterIsForAllKinds) {
  Program program(folder_);
  ASSERT_EQ(program.ask("keepers 100").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext + 200) << "it is kept";
  EXPECT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS);
  EXPECT_EQ(on_device(), limit_);
}

// Handles are released and maps undone in any order, several maps by one call: a piece is charged
// until the last of both is gone, as on the device.
TEST_F(CudaMemory, MappedMemoryGoesWithItsLastHandleOrMapInWhateverOrder) {
  constexpr int kPieces = 8;
  constexpr Bytes kPiece = 16;
  Program program(folder_);
  Random random(20);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    ASSERT_EQ(program.ask("pieces " + std::to_string(kPieces)).result, CUDA_SUCCESS);
    std::vector<int> handle(kPieces, 1), map(kPieces, 1);
    const auto used = [&] {
      Bytes mib = kContext;
      for (int i = 0; i < kPieces; ++i) mib += handle[i] != 0 || map[i] != 0 ? kPiece : 0;
      return mib;
    };
    while (used() > kContext) {
      const auto i = static_cast<int>(random.below(kPieces));
      int count = 0;  // of the maps from there on
      while (i + count < kPieces && map[i + count] != 0) ++count;
      if (random.below(2) == 0 && handle[i] != 0) {
        handle[i] = 0;
        ASSERT_EQ(program.ask("release " + std::to_string(i)).result, CUDA_SUCCESS);
      } else if (count > 0) {
        count = 1 + static_cast<int>(random.below(static_cast<uint64_t>(count)));
        std::fill_n(map.begin() + i, count, 0);
        ASSERT_EQ(program.ask("unmap " + std::to_string(i) + " " + std::to_string(count)).result,
                  CUDA_SUCCESS);
      }
      ASSERT_EQ(on_device(), used());
      ASSERT_GE(held(), used() - kContext) << "which is charged later";
    }
    ASSERT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS) << "nothing is charged";
    ASSERT_EQ(program.ask("free " + std::to_string(round)).result, CUDA_SUCCESS);
  }
}

}  // namespace
}  // namespace sluice
