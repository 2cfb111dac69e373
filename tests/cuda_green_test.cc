// A program whose SMs change while it runs, as the device's log has it. It knows nothing of that:
// what it asks of its streams keeps its order, and what cannot be done so is done on all SMs. The
// device has 132 SMs, which green contexts part into 16 groups of 8.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "emulator/device_memory.h"
#include "tests/metered_program.h"

namespace sluice::hook {
namespace {

using emulator::Machine;
using emulator::Stretch;

constexpr unsigned kBlocks = 132;  // of every kernel here: as many SMs as it may have

// Its daemon has asked for it.
std::string fault_of_live(const std::function<void(Program&)>& body) {
  return fault_of(body, {{"SLUICE_LIVE_SM", "1"}});
}

// What ran since it was made.
class Log {
 public:
  explicit Log(Program& program) : program_(program), from_(end()) {}

  std::vector<Stretch> stretches() const {
    const Machine::Lock lock(*program_.machine);
    std::vector<Stretch> all;
    for (uint64_t i = from_; i < lock->devices[0].log_end(); ++i)
      all.push_back(lock->devices[0].stretch(i));
    return all;
  }
  std::set<uint32_t> widths() const {
    std::set<uint32_t> all;
    for (const Stretch& s : stretches()) all.insert(s.sms);
    return all;
  }
  // Waits for all that was launched.
  void expect_widths(const std::set<uint32_t>& wanted, const std::string& what) const {
    program_.need(program_.synchronize(), "cuCtxSynchronize");
    program_.expect(widths() == wanted, what + ": " + testing::PrintToString(widths()));
  }

 private:
  uint64_t end() const {
    const Machine::Lock lock(*program_.machine);
    return lock->devices[0].log_end();
  }

  Program& program_;
  const uint64_t from_;
};

TEST(GreenTest, AllStreamsOfAProgramRunOnItsPartOfTheSms) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us100");
              p.daemon.confine(0, 500);
              const Log log(p);
              for (CUstream stream : {p.stream(), p.stream(CU_STREAM_DEFAULT), CUstream{nullptr},
                                      CU_STREAM_LEGACY, CU_STREAM_PER_THREAD})
                p.launch(kernel, stream, kBlocks);
              p.need(
                  p.launch_per_thread(kernel, kBlocks, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                  "cuLaunchKernel_ptsz");
              CUlaunchConfig config{kBlocks, 1, 1, 1, 1, 1, 0, nullptr, nullptr, 0};
              p.need(p.launch_kernel_ex(&config, kernel, nullptr, nullptr), "cuLaunchKernelEx");
              p.need(p.launch_cooperative(kernel, 10, 1, 1, 1, 1, 1, 0, nullptr, nullptr),
                     "cuLaunchCooperativeKernel");
              log.expect_widths({10, 64}, "half of the SMs");
            }),
            "");
}

// Nothing is waited for between the changes; each is seen by the next launch.
TEST(GreenTest, ItsSmsChangeWhileItRuns) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us100");
              CUstream stream = p.stream();
              p.launch(kernel, stream, kBlocks);
              const Log log(p);
              std::vector<uint32_t> wanted;
              for (int round = 0; round < 5; ++round)
                for (const auto& [begin, end, sms] : {std::tuple{0, 500, 64},
                                                      {0, 250, 32},
                                                      {0, 1000, 132},
                                                      {750, 1000, 32},
                                                      {0, 10, 8}}) {
                  p.daemon.confine(begin, end);
                  p.launch(kernel, stream, kBlocks);
                  p.launch(kernel, stream, kBlocks);
                  wanted.insert(wanted.end(), 2, sms);
                }
              p.need(p.stream_synchronize(stream), "cuStreamSynchronize");
              std::vector<uint32_t> widths;
              emulator::Ns end = 0;
              for (const Stretch& s : log.stretches()) {
                if (s.last) widths.push_back(s.sms);
                p.expect(s.begin_ns >= end, "one after the other");
                end = s.end_ns;
              }
              widths.erase(widths.begin(), widths.end() - static_cast<long>(wanted.size()));
              p.expect(widths == wanted, testing::PrintToString(widths));
            }),
            "");
}

// Two streams wait for each other's events in turn, a third (the legacy one) for both.
TEST(GreenTest, TheOrderOfStreamsStays) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us10");
              CUstream one = p.stream(), two = p.stream(CU_STREAM_DEFAULT);
              CUevent event = nullptr;
              p.need(p.event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
              const Log log(p);
              constexpr int kRounds = 60;
              for (int round = 0; round < kRounds; ++round) {
                p.daemon.confine(0, 125 * (round % 8 + 1));
                p.launch(kernel, one, kBlocks);
                p.need(p.event_record(event, one), "cuEventRecord");
                p.need(p.stream_wait_event(two, event, 0), "cuStreamWaitEvent");
                p.launch(kernel, two, kBlocks);
                p.launch(kernel, nullptr, kBlocks);
                p.need(p.event_record(event, nullptr), "cuEventRecord");
                p.need(p.stream_wait_event(one, event, 0), "cuStreamWaitEvent");
              }
              p.need(p.event_synchronize(event), "cuEventSynchronize");
              p.need(p.stream_query(two), "cuStreamQuery");
              int ended = 0;
              emulator::Ns end = 0;
              for (const Stretch& s : log.stretches()) {
                p.expect(s.begin_ns >= end, "each after the one before it");
                end = s.end_ns;
                ended += s.last != 0 ? 1 : 0;
              }
              p.expect(ended == 3 * kRounds, std::to_string(ended) + " ended");
            }),
            "");
}

// What is asked of a stream right after a launch finds it at work.
TEST(GreenTest, AStreamIsAtWorkWhileItsTwinIs) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              p.daemon.confine(0, 125);
              CUstream stream = p.stream();
              p.launch(p.function("ms2"), stream, kBlocks);
              p.expect(p.stream_query(stream) == CUDA_ERROR_NOT_READY, "it is at work");
              p.need(p.stream_synchronize(stream), "cuStreamSynchronize");
              p.need(p.stream_query(stream), "and then is not");
            }),
            "");
}

TEST(GreenTest, ACaptureHasWhatTheProgramLaunchesAndAChangeWaitsForItsEnd) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us100");
              p.daemon.confine(0, 500);
              CUstream stream = p.stream(), other = p.stream();
              p.launch(kernel, other, kBlocks);
              p.need(p.synchronize(), "cuCtxSynchronize");
              CUgraph graph = nullptr;
              CUgraphExec exec = nullptr;
              p.need(p.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "begin");
              p.launch(kernel, stream, kBlocks);
              p.daemon.confine(0, 250);
              const Log meanwhile(p);
              p.launch(kernel, other, kBlocks);
              p.need(p.end_capture(stream, &graph), "end");
              meanwhile.expect_widths({64}, "as before the capture");
              size_t nodes = 0;
              p.need(p.graph_nodes(graph, nullptr, &nodes), "cuGraphGetNodes");
              p.expect(nodes == 1, "one kernel is captured");
              p.need(p.instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
              const Log later(p);
              p.launch(kernel, other, kBlocks);
              later.expect_widths({32}, "the change has come");
              const Log graphs(p);
              p.need(p.graph_launch(exec, stream), "cuGraphLaunch");
              graphs.expect_widths({132}, "a graph keeps to no SMs");
            }),
            "");
}

TEST(GreenTest, WhereTheDriverRefusesAllSmsAreUsedAndTheDaemonHearsOfIt) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us100");
              for (const char* call : {"cuDeviceGetDevResource", "cuDevSmResourceSplitByCount",
                                       "cuDevResourceGenerateDesc", "cuGreenCtxCreate"}) {
                p.fail(call, 1);
                p.daemon.confine(0, 500);
                const Log log(p);
                for (int i = 0; i < 3; ++i) p.launch(kernel, nullptr, kBlocks);
                log.expect_widths({132}, call);
                p.expect(p.daemon.sm_refusal() == CUDA_ERROR_OUT_OF_MEMORY, "it is said");
                p.daemon.confine(0, 250);
                const Log again(p);
                p.launch(kernel, nullptr, kBlocks);
                again.expect_widths({32}, "the next change is tried");
                p.expect(p.daemon.sm_refusal() == CUDA_SUCCESS, "and that it went well");
              }
              // What a twin needs; it is tried again by the next launch.
              p.daemon.confine(0, 750);
              p.fail("cuGreenCtxStreamCreate", 1);
              const Log log(p);
              for (int i = 0; i < 2; ++i) p.launch(kernel, nullptr, kBlocks);
              log.expect_widths({96, 132}, "once on all");
            }),
            "");
}

TEST(GreenTest, ALaunchThatFailsFailsAsItWouldHave) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us100");
              p.daemon.confine(0, 500);
              p.launch(kernel, nullptr);
              const CUresult none =
                  p.launch_kernel(kernel, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
              p.expect(none == CUDA_ERROR_INVALID_VALUE, "no blocks");
              const Log log(p);
              p.need(p.launch_cooperative(kernel, kBlocks, 1, 1, 1, 1, 1, 0, nullptr, nullptr),
                     "cuLaunchCooperativeKernel");
              log.expect_widths({132}, "one that needs all SMs at once gets them");
            }),
            "");
}

// Far more streams than twins: those that are idle serve others.
TEST(GreenTest, ManyStreamsAndThreads) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us10");
              p.daemon.confine(0, 500);
              const Log log(p);
              std::vector<std::thread> threads;
              for (int t = 0; t < 4; ++t)
                threads.emplace_back([&] {
                  p.need(p.set_current(p.context), "cuCtxSetCurrent");
                  for (int i = 0; i < 60; ++i) {
                    CUstream stream = p.stream();
                    p.launch(kernel, stream, kBlocks);
                    p.launch(kernel, CU_STREAM_PER_THREAD, kBlocks);
                    p.need(p.stream_synchronize(stream), "cuStreamSynchronize");
                    p.need(p.stream_destroy(stream), "cuStreamDestroy");
                  }
                });
              for (std::thread& thread : threads) thread.join();
              p.need(p.synchronize(), "cuCtxSynchronize");
              unsigned most = 0;
              for (const Stretch& s : log.stretches()) most = std::max(most, s.sms);
              p.expect(most <= 64, "half of the SMs");
            }),
            "");
}

TEST(GreenTest, AContextOfItsOwnIsLeftAlone) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us100");
              p.daemon.confine(0, 500);
              p.launch(kernel, nullptr, kBlocks);
              p.need(p.synchronize(), "cuCtxSynchronize");
              CUcontext own = nullptr;
              p.need(p.context_create(&own, 0, 0), "cuCtxCreate");
              CUmodule module = nullptr;
              CUfunction of_own = nullptr;
              p.need(p.load(&module, kModule), "cuModuleLoadData");
              p.need(p.get_function(&of_own, module, "us100"), "cuModuleGetFunction");
              const Log log(p);
              p.launch(of_own, nullptr, kBlocks);
              log.expect_widths({132}, "a context of its own");
              p.need(p.context_destroy(own), "cuCtxDestroy");
              p.need(p.set_current(p.context), "cuCtxSetCurrent");
              const Log after(p);
              p.launch(kernel, nullptr, kBlocks);
              after.expect_widths({64}, "the program goes on");
            }),
            "");
}

// Every part keeps the primary context; the program's last release ends it all the same.
TEST(GreenTest, NothingIsLeftOfItsParts) {
  EXPECT_EQ(fault_of_live([](Program& p) {
              CUfunction kernel = p.function("us10");
              for (int i = 0; i < 40; ++i) {
                p.daemon.confine(0, 125 * (i % 7 + 1));
                p.launch(kernel, nullptr, kBlocks);
                p.launch(kernel, p.stream(), kBlocks);
              }
              p.need(p.synchronize(), "cuCtxSynchronize");
              p.need(p.release(0), "cuDevicePrimaryCtxRelease");
              const Machine::Lock lock(*p.machine);
              p.expect(emulator::memory_used(*lock, 0) == 0, "memory is left");
            }),
            "");
}

TEST(GreenTest, WhoWasNotAskedRunsOnAllSms) {
  EXPECT_EQ(fault_of([](Program& p) {
              p.daemon.confine(0, 500);
              const Log log(p);
              p.launch(p.function("us100"), nullptr, kBlocks);
              log.expect_widths({132}, "all");
            }),
            "");
}

}  // namespace
}  // namespace sluice::hook
