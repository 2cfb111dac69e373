// One slice's memory between several processes, threads, and daemons in turn.
#include "base/random.h"
#include "tests/support/eventually.h"
#include "tests/support/memory_program.h"

namespace sluice {
namespace {

TEST_F(CudaMemory, WhatAProcessImportsItsOwnerPays) {
  Program owner(folder_), other(folder_);
  EXPECT_EQ(owner.allocate("plain", 64), CUDA_SUCCESS);
  EXPECT_EQ(other.allocate("plain", 2), CUDA_SUCCESS);
  const Answer exported = owner.ask("export 0");
  const Bytes before = held();
  EXPECT_EQ(other.ask("import " + exported.word).result, CUDA_SUCCESS);
  EXPECT_EQ(other.ask("free 1").result, CUDA_SUCCESS);
  EXPECT_EQ(other.ask("import " + exported.word).result, CUDA_SUCCESS);
  EXPECT_EQ(held(), before);
}

TEST_F(CudaMemory, AKilledProcessLeavesItsMemoryToOthers) {
  Program other(folder_);
  EXPECT_EQ(other.allocate("plain", 2), CUDA_SUCCESS);
  int which = 1;
  for (const char* kind : {"plain", "graph"}) {
    Program victim(folder_);
    const Bytes rest = limit_ - 2 * kContext - 16 - 2;
    EXPECT_EQ(victim.allocate(kind, rest), CUDA_SUCCESS);
    const Answer child = victim.ask("fork");  // keeps its descriptors open
    EXPECT_EQ(child.result, CUDA_SUCCESS);
    EXPECT_EQ(other.allocate("plain", rest), CUDA_ERROR_OUT_OF_MEMORY);
    victim.end();
    EXPECT_TRUE(eventually("its memory to be free", [&] { return held() < rest; }));
    EXPECT_EQ(other.allocate("plain", rest), CUDA_SUCCESS);
    EXPECT_EQ(other.ask("free " + std::to_string(which + 1)).result, CUDA_SUCCESS);
    which += 2;
    kill(static_cast<pid_t>(child.numbers[0]), SIGKILL);
  }
}

TEST_F(CudaMemory, FourProcessesTogetherKeepToTheLimit) {
  constexpr int kPrograms = 4;
  std::vector<std::unique_ptr<Program>> programs;
  std::vector<std::vector<int>> has(kPrograms);
  std::vector<int> next(kPrograms, 0);
  for (int i = 0; i < kPrograms; ++i) programs.push_back(std::make_unique<Program>(folder_));
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  Random random(kSeed);
  const char* const kinds[] = {"plain",   "pitched", "managed", "pooled",
                               "virtual", "array",   "graph"};
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    const auto which = static_cast<size_t>(random.below(kPrograms));
    if (!has[which].empty() && random.chance(0.4)) {
      const size_t victim = random.below(has[which].size());
      EXPECT_EQ(programs[which]->ask("free " + std::to_string(has[which][victim])).result, 0);
      has[which].erase(has[which].begin() + static_cast<std::ptrdiff_t>(victim));
    } else {
      const Bytes mib = 2 * random.between(1, 16);
      const int result = programs[which]->allocate(kinds[random.below(std::size(kinds))], mib);
      if (result == CUDA_SUCCESS) has[which].push_back(next[which]);
      ASSERT_TRUE(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY) << result;
      refused += result == CUDA_SUCCESS ? 0 : 1;
      ++next[which];
    }
    ASSERT_LE(on_device(), limit_);
    ASSERT_LE(held(), limit_);
  }
  EXPECT_GT(refused, 10);
  for (const auto& program : programs) program->end();
  EXPECT_TRUE(eventually("nothing to be held", [&] { return held() == 0; }));
}

TEST_F(CudaMemory, ThreadsThatComeAtOnceKeepToTheLimitAndLeaveNothingCharged) {
  Program program(folder_);
  program.tell("threads 8");
  // Polling without a pause keeps the device's lock from the program, and from the daemon.
  EXPECT_TRUE(eventually("its answer", [&] {
    EXPECT_LE(on_device(), limit_);
    return program.has_answered();
  }));
  EXPECT_EQ(program.next().result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  EXPECT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS);
}

// One thread reads all pools whenever another frees or is short of memory.
TEST_F(CudaMemory, APoolThatGoesWhileOthersLookAtItLeavesNothingCharged) {
  Program program(folder_);
  EXPECT_EQ(program.ask("pools 8").result, CUDA_SUCCESS);
  EXPECT_EQ(on_device(), kContext);
  EXPECT_EQ(program.ask("info").numbers[0], limit_ - kContext);
  EXPECT_EQ(program.allocate("plain", limit_ - kContext), CUDA_SUCCESS);
}

// The page goes away under threads that read it.
TEST_F(CudaMemory, ADaemonThatCountsNoMoreHarmsNoThread) {
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 2), CUDA_SUCCESS);
  program.tell("threads 8");
  for (int round = 0; !program.has_answered(); ++round)
    daemon_.start(round % 2 == 0 ? 0 : limit_ * kMib);
  EXPECT_EQ(program.next().result, CUDA_SUCCESS);
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
}

TEST_F(CudaMemory, WithoutADaemonAProcessHasItsPartOfTheRest) {
  Program program(folder_), other(folder_);
  EXPECT_EQ(program.allocate("plain", 64), CUDA_SUCCESS);
  EXPECT_EQ(other.allocate("plain", 64), CUDA_SUCCESS);
  daemon_.stop();
  for (Program* p : {&program, &other})
    while (p->allocate("plain", 2) == CUDA_SUCCESS) ASSERT_LE(on_device(), limit_);
  EXPECT_GT(on_device(), 2 * kContext + 2 * 64 + 32);
  start_daemon();
  EXPECT_EQ(program.ask("free 0").result, CUDA_SUCCESS);
  EXPECT_TRUE(eventually("what it freed to be lent", [&] {
    program.allocate("plain", 256);  // refused; it comes back
    return other.allocate("plain", 48) == CUDA_SUCCESS;
  }));
  EXPECT_LE(on_device(), limit_);
  EXPECT_LE(held(), limit_);
}

// Whether or not the device reports what they have.
TEST_F(CudaMemory, TheNextDaemonLendsNobodyWhatAnotherHas) {
  for (const bool device_says : {true, false}) {
    Program program(folder_), other(folder_);
    EXPECT_EQ(program.allocate("plain", 64), CUDA_SUCCESS);
    EXPECT_EQ(other.allocate("plain", 64), CUDA_SUCCESS);
    daemon_.stop();
    EXPECT_EQ(other.allocate("plain", 16), CUDA_SUCCESS);
    device_says_ = device_says;
    start_daemon();
    while (program.allocate("plain", 2) == CUDA_SUCCESS) ASSERT_LE(on_device(), limit_);
    EXPECT_GT(on_device(), 2 * kContext + 64 + 64 + 16);
    while (other.allocate("plain", 2) == CUDA_SUCCESS) ASSERT_LE(on_device(), limit_);
    EXPECT_EQ(daemon_.look().holders, 2);
  }
}

TEST_F(CudaMemory, AProgramWhoseMemoryNobodyCountsHasTheDevices) {
  daemon_.start(0);
  Program program(folder_);
  EXPECT_EQ(program.allocate("plain", 2 * limit_), CUDA_SUCCESS);
  EXPECT_EQ(program.allocate("pooled", 64), CUDA_SUCCESS);
  EXPECT_EQ(program.ask("info").numbers[1], kDevice);
}

}  // namespace
}  // namespace sluice
