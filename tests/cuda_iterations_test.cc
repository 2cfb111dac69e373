// The hook's reports of a program's iterations, where its slice asks for them: which of its waits
// end one, how long it took, and its kind.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "hook/iterations.h"
#include "tests/support/metered_program.h"

namespace sluice::hook {
namespace {

constexpr uint64_t kSlo = 50 * kMs;

// A program that launches and waits, over and over.
class Iterating {
 public:
  explicit Iterating(Program& p, uint64_t slo_ns = kSlo) : p_(p), stream_(p.stream()) {
    p_.need(p_.allocate(&number_, 4), "cuMemAlloc");
    for (int i = 0; i < 20; ++i) step({"ms1", "us100", "us10"});  // its times are learned
    p_.daemon.ask_for_iterations(slo_ns);
  }

  void step(const std::vector<const char*>& kernels) {
    for (const char* kernel : kernels) p_.launch(p_.function(kernel), stream_, 132);
    p_.need(p_.stream_synchronize(stream_), "cuStreamSynchronize");
  }
  // Reads a number on the device, as a program does for its log.
  void look() {
    unsigned number = 0;
    p_.need(p_.copy_from_device(&number, number_, 4), "cuMemcpyDtoH");
  }
  CUstream stream() const { return stream_; }
  PermitDaemon::Hints said() const { return p_.daemon.hints(); }
  void expect_ended(uint32_t iterations) {
    p_.expect(said().iterations == iterations,
              std::to_string(said().iterations) + " iterations, not " + std::to_string(iterations));
  }

 private:
  Program& p_;
  CUstream stream_;
  CUdeviceptr number_ = 0;
};

TEST(CudaIterations, NothingIsSaidWhereNobodyAsks) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p, 0);
              for (int i = 0; i < 5; ++i) it.step({"ms1"});
              it.expect_ended(0);
              p.expect(it.said().due_ns == 0, "something is due");
            }),
            "");
}

TEST(CudaIterations, EachWaitForWorkEndsOne) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p);
              for (uint32_t i = 1; i <= 10; ++i) {
                const uint64_t begun = sluice_clock(CLOCK_MONOTONIC);
                it.step({"ms1", "us100"});
                it.expect_ended(i);
                const uint64_t cycle = it.said().cycle_ns;
                p.expect(cycle >= 1100 * kUs, "shorter than its work");
                p.expect(cycle <= sluice_clock(CLOCK_MONOTONIC) - begun, "longer than it took");
              }
            }),
            "");
}

TEST(CudaIterations, SoDoWaitsForContextsAndEventsAndCopiesToTheHost) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p);
              CUevent event = nullptr;
              CUfunction kernel = p.function("ms1");
              p.need(p.event_create(&event, CU_EVENT_DEFAULT), "cuEventCreate");
              p.launch(kernel, it.stream(), 132);
              p.need(p.synchronize(), "cuCtxSynchronize");
              it.expect_ended(1);
              for (uint32_t i = 2; i <= 10; ++i) {
                p.launch(kernel, it.stream(), 132);
                p.need(p.event_record(event, it.stream()), "cuEventRecord");
                p.need(p.event_synchronize(event), "cuEventSynchronize");
                it.expect_ended(i);
              }
              p.launch(kernel, nullptr, 132);
              it.look();
              it.expect_ended(11);
            }),
            "");
}

// As in PyTorch, where each `.item()` waits.
TEST(CudaIterations, ALookAtANumberInTheMiddleEndsNone) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p);
              for (uint32_t i = 1; i <= 10; ++i) {
                it.step({"ms1", "ms1"});
                it.step({"us10"});
                it.look();
                it.look();
                it.expect_ended(i);
                p.expect(it.said().cycle_ns >= 2 * kMs, "the last is not the long one");
              }
            }),
            "");
}

TEST(CudaIterations, WhatCarriesMoreWorkIsOfAnotherKind) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p);
              std::set<uint32_t> small, large;
              for (int i = 0; i < 20; ++i) {
                it.step({"ms1"});
                small.insert(it.said().kind);
                it.step({"ms1", "ms1"});
                large.insert(it.said().kind);
              }
              for (const uint32_t kind : small) p.expect(!large.contains(kind), "one kind");
            }),
            "");
}

// Pauses between requests do not count; a pause within one does.
TEST(CudaIterations, BeginWithTheFirstLaunchAfterAWait) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p);
              uint64_t shortest = ~0ull;
              for (int i = 0; i < 10; ++i) {
                usleep(20'000);
                it.step({"ms1"});
                shortest = std::min(shortest, it.said().cycle_ns);
              }
              p.expect(shortest < 20 * kMs, "the pause counts");
              p.launch(p.function("ms1"), it.stream(), 132);
              usleep(20'000);
              p.need(p.stream_synchronize(it.stream()), "cuStreamSynchronize");
              p.expect(it.said().cycle_ns >= 20 * kMs, "what passes within one does not count");
            }),
            "");
}

TEST(CudaIterations, OneIsDueItsObjectiveAfterItBegan) {
  EXPECT_EQ(fault_of([](Program& p) {
              Iterating it(p);
              const uint64_t before = sluice_clock(CLOCK_MONOTONIC);
              p.launch(p.function("ms1"), it.stream(), 132);
              const uint64_t after = sluice_clock(CLOCK_MONOTONIC), due = it.said().due_ns;
              p.expect(due >= before + kSlo && due <= after + kSlo, "due at another time");
              p.need(p.synchronize(), "cuCtxSynchronize");
              p.expect(it.said().due_ns == 0, "due when it is over");
            }),
            "");
}

// Several waits in each, and marks within marks.
TEST(CudaIterations, WhatAProgramMarksIsWhatCounts) {
  EXPECT_EQ(fault_of([](Program& p) {
              auto* const begin = p.of<void()>("sluice_iteration_begin");
              auto* const end = p.of<void(uint32_t)>("sluice_iteration_end");
              Iterating it(p);
              end(1);
              it.expect_ended(0);
              for (uint32_t i = 1; i <= 5; ++i) {
                const uint64_t begun = sluice_clock(CLOCK_MONOTONIC);
                begin();
                p.expect(it.said().due_ns >= begun + kSlo, "due at another time");
                it.step({"ms1"});
                std::thread([&] {
                  begin();
                  end(9);
                }).join();
                it.step({"ms1"});
                it.expect_ended(i - 1);
                end(7);
                end(8);
                it.expect_ended(i);
                p.expect(it.said().kind == 7, "of another kind");
                p.expect(it.said().cycle_ns >= 2 * kMs, "shorter than its work");
                p.expect(it.said().due_ns == 0, "due when it is over");
              }
              it.step({"ms1"});
              it.expect_ended(5);
            }),
            "");
}

}  // namespace
}  // namespace sluice::hook
