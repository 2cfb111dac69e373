// The hook's reports on the emulated device, and its bounds, checked by the device itself. In real
// time, so everything is one-sided: a program off the processor uses the device less, never more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "hook/meter.h"
#include "tests/support/metered_program.h"

namespace sluice::hook {
namespace {

// The test's daemon was off the processor for so long that the gate may have taken it for dead.
constexpr char kAgain[] = "again";

// ---- what is charged ----------------------------------------------------------------------------

// Runs the work a few times: its units are known then. After that the median of some rounds is to
// be what its units take: a thread that is off the processor during a timing makes them look longer
// for a while.
void expect_charged(Program& p, const std::string& what, uint64_t takes,
                    const std::function<void()>& work) {
  constexpr int kLearns = 10, kRounds = 9;
  std::vector<double> charged;
  for (int round = 0; round < kLearns + kRounds; ++round) {
    const uint64_t before = p.submitted();
    work();
    p.need(p.synchronize(), "cuCtxSynchronize");
    if (round >= kLearns) charged.push_back(static_cast<double>(p.submitted() - before));
  }
  std::ranges::sort(charged);
  const double ratio = charged[kRounds / 2] / static_cast<double>(takes);
  p.expect(ratio >= 0.9 && ratio <= 1.2, what + ": charged " + std::to_string(ratio) + " of it");
}

TEST(MeterTest, ChargesKernelsThatAreWaitedFor) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              expect_charged(p, "200 kernels", 200 * 100 * kUs, [&] {
                for (int i = 0; i < 200; ++i) {
                  p.launch(kernel, nullptr);
                  p.need(p.stream_synchronize(nullptr), "cuStreamSynchronize");
                }
              });
            }),
            "");
}

TEST(MeterTest, ChargesKernelsThatAreQueued) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream stream = p.stream();
              expect_charged(p, "500 kernels", 500 * 100 * kUs, [&] {
                for (int i = 0; i < 500; ++i) p.launch(kernel, stream);
              });
            }),
            "");
}

// What each takes alone: they run at once.
TEST(MeterTest, ChargesWhatOverlapsForEachUnit) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream one = p.stream(), two = p.stream();
              expect_charged(p, "two streams", 100 * 100 * kUs, [&] {
                for (int i = 0; i < 100; ++i) p.launch(kernel, i % 2 == 0 ? one : two);
              });
            }),
            "");
}

TEST(MeterTest, ChargesNothingForFunctionsOfTheProgramsThatAStreamWaitsFor) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream stream = p.stream();
              const CUhostFn function = [](void*) {
                std::this_thread::sleep_for(std::chrono::microseconds(500));
              };
              for (int i = 0; i < 20; ++i) {
                p.launch(kernel, stream);
                p.need(p.synchronize(), "cuCtxSynchronize");
              }
              expect_charged(p, "a callback behind each kernel", 40 * 100 * kUs, [&] {
                for (int i = 0; i < 40; ++i) {
                  p.launch(kernel, stream);
                  p.need(p.launch_host_function(stream, function, nullptr), "cuLaunchHostFunc");
                }
              });
            }),
            "");
}

// Waits for events of another stream cost nothing; that stream's kernels and its own do.
TEST(MeterTest, ChargesNothingForEventsThatAStreamWaitsFor) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream held = p.stream(), behind = p.stream();
              CUevent event = nullptr;
              p.need(p.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
              const CUhostFn function = [](void*) {
                std::this_thread::sleep_for(std::chrono::microseconds(500));
              };
              for (int i = 0; i < 20; ++i) {
                p.launch(kernel, held);
                p.need(p.synchronize(), "cuCtxSynchronize");
              }
              expect_charged(p, "a stream that waits", 80 * 100 * kUs, [&] {
                for (int i = 0; i < 40; ++i) {
                  p.need(p.launch_host_function(held, function, nullptr), "cuLaunchHostFunc");
                  p.launch(kernel, held);
                  p.need(p.event_record(event, held), "cuEventRecord");
                  p.need(p.stream_wait_event(behind, event, 0), "cuStreamWaitEvent");
                  p.launch(kernel, behind);
                }
              });
            }),
            "");
}

TEST(MeterTest, ChargesGraphsByWhatTheyTake) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUstream stream = p.stream();
              CUgraph graph = nullptr;
              CUgraphExec exec = nullptr;
              p.need(p.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
              for (int i = 0; i < 5; ++i) p.launch(p.function("us100"), stream);
              p.need(p.end_capture(stream, &graph), "end");
              p.need(p.instantiate(&exec, graph, 0), "instantiate");
              expect_charged(p, "100 graphs", 100 * 500 * kUs, [&] {
                for (int i = 0; i < 100; ++i) p.need(p.graph_launch(exec, stream), "cuGraphLaunch");
              });
              p.expect(p.daemon.report().longest_ns >= 500 * kUs, "a graph is a unit");
            }),
            "");
}

TEST(MeterTest, ChargesTheLegacyStreamBesideOneThatWaitsForIt) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUstream blocking = p.stream(CU_STREAM_DEFAULT);
              CUfunction kernel = p.function("us100");
              expect_charged(p, "100 kernels", 100 * 100 * kUs, [&] {
                for (int i = 0; i < 100; ++i) p.launch(kernel, nullptr);
              });
              expect_charged(p, "in two streams", 100 * 100 * kUs, [&] {
                for (int i = 0; i < 100; ++i) p.launch(kernel, i % 2 == 0 ? nullptr : blocking);
              });
            }),
            "");
}

// The device's own account has only kernels.
TEST(MeterTest, ChargesCopiesAndSets) {
  EXPECT_EQ(
      fault_of([](Program& p) {
        constexpr size_t kBytes = 16 << 20;
        std::vector<char> host(kBytes);
        CUdeviceptr here = 0, there = 0;
        CUstream stream = p.stream();
        p.need(p.allocate(&here, kBytes), "cuMemAlloc");
        p.need(p.allocate(&there, kBytes), "cuMemAlloc");
        // The emulated driver copies before it returns, so these seem to take longer than on the
        // device. (As they are charged there: meter_test.)
        const auto charged = [&](const char* what, double gbps, auto&& copy) {
          const uint64_t before = p.submitted();
          for (int i = 0; i < 20; ++i) copy();
          p.need(p.synchronize(), "cuCtxSynchronize");
          const auto said = static_cast<double>(p.submitted() - before);
          const double at_least = 0.8 * 20 * static_cast<double>(kBytes) / gbps;
          p.expect(said >= at_least, std::string(what) + " " + std::to_string(said));
        };
        // Those that block are charged the mean time for which they do, which varies here.
        const auto charged_what_it_waits = [&](const char* what, auto&& copy) {
          for (int i = 0; i < 40; ++i) copy();
          const uint64_t before = p.submitted(), begun = sluice_clock(CLOCK_MONOTONIC);
          for (int i = 0; i < 20; ++i) copy();
          const auto passed = static_cast<double>(sluice_clock(CLOCK_MONOTONIC) - begun);
          const auto said = static_cast<double>(p.submitted() - before);
          p.expect(said >= 0.7 * passed && said <= 1.4 * passed,
                   std::string(what) + ": charged " + std::to_string(said / passed));
        };
        charged_what_it_waits("to the device",
                              [&] { p.need(p.copy_to_device(here, host.data(), kBytes), "h"); });
        charged_what_it_waits("from it",
                              [&] { p.need(p.copy_from_device(host.data(), here, kBytes), "d"); });
        charged("within", 3000, [&] { p.need(p.copy_within(there, here, kBytes, stream), "w"); });
        charged("set", 3000, [&] { p.need(p.set_bytes(here, 1, kBytes, stream), "s"); });
      }),
      "");
}

// ---- what is in flight --------------------------------------------------------------------------

// Running work counts with its remainder by the host's clock, which may be early by that.
TEST(MeterTest, AProgramThatNeverWaitsHasLittleInFlight) {
  constexpr uint64_t at_most = kInFlightNs + kInFlightNs / 2 + 200 * kUs;
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream stream = p.stream();
              const uint64_t before = p.device_busy();
              for (uint64_t i = 1; i <= 500; ++i) {
                p.launch(kernel, stream);
                const uint64_t in_flight = i * 100 * kUs - (p.device_busy() - before);
                p.expect(in_flight <= at_most,
                         std::to_string(in_flight) + " ns after " + std::to_string(i));
              }
            }),
            "");
}

// A program that was so slow that its stream always ran dry, and then becomes fast.
TEST(MeterTest, AProgramThatTurnsFastHasLittleInFlight) {
  constexpr uint64_t at_most = kInFlightNs + kInFlightNs / 2 + 200 * kUs;
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us10");
              CUstream stream = p.stream();
              const uint64_t before = p.device_busy();
              uint64_t launched = 0;
              for (int round = 0; round < 4; ++round) {
                for (int i = 0; i < 500; ++i) {
                  p.launch(kernel, stream);
                  launched += 10 * kUs;
                  while (p.device_busy() - before < launched) {
                  }
                }
                for (int i = 0; i < 500; ++i) {
                  p.launch(kernel, stream);
                  launched += 10 * kUs;
                  const uint64_t in_flight = launched - (p.device_busy() - before);
                  p.expect(in_flight <= at_most, std::to_string(in_flight) + " ns");
                }
              }
            }),
            "");
}

// A program that never waits has a grant of 5 ms.
std::string fault_of_a_grant(const char* kernel_name) {
  return fault_of([=](Program& p) {
    CUfunction kernel = p.function(kernel_name);
    CUstream stream = p.stream();
    for (int i = 0; i < 100; ++i) p.launch(kernel, stream);
    p.need(p.synchronize(), "cuCtxSynchronize");
    p.daemon.revoke();
    const uint64_t before = p.device_busy();
    std::atomic<bool> over{false};
    std::thread program([&] {
      p.need(p.set_current(p.context), "cuCtxSetCurrent");
      while (!over) p.launch(kernel, stream);
    });
    const auto waits = [&] { return p.daemon.waited_for() || p.daemon.heart_paused(); };
    p.expect(bool(eventually("it waits", waits)), "it does not wait");
    p.daemon.grant(5 * kMs);
    const auto used = [&] { return p.device_busy() - before; };
    p.expect(bool(eventually("a kernel", [&] { return used() > 0; })), "it does not run");
    p.expect(bool(eventually("it waits", waits)), "it does not stop");
    p.expect(used() <= 5 * kMs + 2 * kMs + 500 * kUs, "used " + std::to_string(used()));
    if (p.daemon.heart_paused()) p.fault = kAgain;
    over = true;
    p.daemon.grant();
    program.join();
  });
}

TEST(MeterTest, NothingIsSubmittedBeyondAGrantButOneKernel) {
  for (const char* kernel : {"us10", "us100", "ms2"}) {
    std::string fault;
    do {
      fault = fault_of_a_grant(kernel);
    } while (fault == kAgain);
    EXPECT_EQ(fault, "") << kernel;
  }
}

// ---- a waiting program has no work
// ---------------------------------------------------------------

TEST(MeterTest, WhoHasWaitedForAllOfItsWorkIsIdle) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream stream = p.stream();
              CUevent event = nullptr;
              CUdeviceptr memory = 0;
              int word = 0;
              p.need(p.event_create(&event, 0), "cuEventCreate");
              p.need(p.allocate(&memory, sizeof word), "cuMemAlloc");
              const auto idles = [&](const char* what, CUstream where, auto&& wait) {
                p.launch(kernel, where);
                p.expect(p.daemon.wanted(), std::string(what) + ": no work");
                wait();
                p.expect(!p.daemon.wanted(), std::string(what) + ": work");
              };
              idles("context", stream, [&] { p.need(p.synchronize(), "c"); });
              idles("stream", stream, [&] { p.need(p.stream_synchronize(stream), "s"); });
              idles("copy", nullptr,
                    [&] { p.need(p.copy_from_device(&word, memory, sizeof word), "d"); });
              idles("event", stream, [&] {
                p.need(p.event_record(event, stream), "r");
                p.need(p.event_synchronize(event), "e");
              });
              p.launch(kernel, stream);
              p.launch(kernel, nullptr);
              p.need(p.stream_synchronize(stream), "s");
              p.launch(kernel, stream);
              p.expect(p.daemon.wanted(), "another stream has work");
            }),
            "");
}

// ---- harmless -----------------------------------------------------------------------------------

TEST(MeterTest, NothingOfOursIsCaptured) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUstream stream = p.stream(), other = p.stream();
              CUfunction kernel = p.function("us10");
              for (int round = 0; round < 20; ++round) {
                CUgraph graph = nullptr;
                size_t nodes = 0;
                for (int i = 0; i < 50; ++i) p.launch(kernel, stream);
                p.need(p.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
                for (int i = 0; i < 100; ++i) {
                  p.launch(kernel, stream);
                  p.launch(kernel, other);  // metered meanwhile
                }
                p.need(p.end_capture(stream, &graph), "end");
                p.need(p.graph_nodes(graph, nullptr, &nodes), "cuGraphGetNodes");
                p.expect(nodes == 100, std::to_string(nodes) + " nodes");
              }
              p.need(p.synchronize(), "cuCtxSynchronize");
            }),
            "");
}

// Makes a context current. Returns the function that ends it.
using MakeContext = std::function<CUresult()> (*)(Program&);

std::function<CUresult()> destroyed(Program& p) {
  CUcontext context = nullptr;
  p.need(p.context_create(&context, 0, 0), "cuCtxCreate");
  return [&p, context] { return p.context_destroy(context); };
}
std::function<CUresult()> detached(Program& p) {
  CUcontext context = nullptr;
  p.need(p.context_create(&context, 0, 0), "cuCtxCreate");
  p.need(p.context_attach(&context, 0), "cuCtxAttach");
  p.need(p.context_detach(context), "cuCtxDetach");
  return [&p, context] { return p.context_detach(context); };
}

// Its work in flight is over for the meter, too.
TEST(MeterTest, TheEndOfAContextIsSeen) {
  for (const MakeContext make : {destroyed, detached})
    EXPECT_EQ(fault_of([make](Program& p) {
                for (int round = 0; round < 10; ++round) {
                  const std::function<CUresult()> end = make(p);
                  CUmodule module = nullptr;
                  CUfunction kernel = nullptr;
                  p.need(p.load(&module, kModule), "cuModuleLoadData");
                  p.need(p.get_function(&kernel, module, "us100"), "cuModuleGetFunction");
                  for (int i = 0; i < 20; ++i) p.launch(kernel, nullptr);
                  p.need(end(), "its end");
                  p.need(p.set_current(p.context), "cuCtxSetCurrent");
                  p.launch(p.function("us10"), nullptr);
                  p.need(p.synchronize(), "cuCtxSynchronize");
                  p.expect(p.in_flight() == 0, "something is in flight");
                }
              }),
              "");
}

TEST(MeterTest, AContextMayGoWithItsEvents) {
  EXPECT_EQ(fault_of([](Program& p) {
              for (int round = 0; round < 40; ++round) {
                CUcontext context = nullptr;
                CUmodule module = nullptr;
                CUfunction kernel = nullptr;
                p.need(p.context_create(&context, 0, 0), "cuCtxCreate");
                p.need(p.load(&module, kModule), "cuModuleLoadData");
                p.need(p.get_function(&kernel, module, "us100"), "cuModuleGetFunction");
                CUstream stream = p.stream();
                for (int i = 0; i < 20; ++i) p.launch(kernel, stream);
                p.need(p.context_destroy(context), "cuCtxDestroy");
                p.need(p.set_current(p.context), "cuCtxSetCurrent");
                p.launch(p.function("us10"), nullptr);
              }
              p.need(p.synchronize(), "cuCtxSynchronize");
              p.need(p.release(0), "cuDevicePrimaryCtxRelease");
              p.need(p.retain(&p.context, 0), "cuDevicePrimaryCtxRetain");
              p.need(p.set_current(p.context), "cuCtxSetCurrent");
              p.need(p.load(&p.module, kModule), "cuModuleLoadData");
              expect_charged(p, "the next primary context", 50 * 100 * kUs, [&] {
                for (int i = 0; i < 50; ++i) p.launch(p.function("us100"), nullptr);
              });
            }),
            "");
}

TEST(MeterTest, WithoutEventsItGoesOn) {
  for (const char* call :
       {"cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime"}) {
    EXPECT_EQ(fault_of([=](Program& p) {
                p.fail(call, ~0u);
                CUstream stream = p.stream();
                CUfunction kernel = p.function("us100");
                const uint64_t before = p.submitted();
                for (int i = 0; i < 100; ++i) p.launch(kernel, stream);
                p.need(p.synchronize(), "cuCtxSynchronize");
                p.expect(p.submitted() > before, "nothing was charged");
              }),
              "")
        << call;
  }
}

TEST(MeterTest, AFaultIsTheProgramsAlone) {
  EXPECT_EQ(fault_of([](Program& p) {
              CUstream stream = p.stream();
              p.launch(p.function("faulty"), stream);
              const CUresult result = p.synchronize();
              p.expect(result == CUDA_ERROR_LAUNCH_FAILED,
                       "synchronised: " + std::to_string(result));
              CUfunction kernel = nullptr;
              for (int i = 0; i < 3; ++i) {
                const CUresult next =
                    p.launch_kernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
                p.expect(next == CUDA_ERROR_LAUNCH_FAILED, "launched: " + std::to_string(next));
              }
            }),
            "");
}

}  // namespace
}  // namespace sluice::hook
