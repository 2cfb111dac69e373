// A recorded trace on the emulated device, in virtual time: judged by the device's log.
#include "tests/support/trace_player.h"

#include "tests/support/emulated_machine.h"

namespace sluice::emulator {
namespace {

// 6 blocks on 4 SMs: two waves of 500 ns. A graph of three kernels: 1,000 + 300 + 300 ns.
constexpr const char* kTrace = R"(trace sms=4
kernel blocks=6 ns=1000 gemm
kernel blocks=4 ns=300 relu
graph 0 1 1
copy to bytes=4096 stream=1 gap=0
launch kernel=0 stream=0 gap=0
launch graph=0 stream=0 gap=0
sync gap=0
launch kernel=1 stream=1 gap=0
copy from bytes=4096 stream=1 gap=0
sync gap=0
)";

class TracePlayerTest : public MachineFixture {
 protected:
  // Returns the exit code of a process that plays the trace.
  static int played(const char* text, int times) {
    const pid_t pid = child([&] {
      LaunchTrace trace;
      std::string why;
      CUcontext context = nullptr;
      if (!read_trace(text, trace, why) || cuInit(0) != CUDA_SUCCESS ||
          cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
          cuCtxSetCurrent(context) != CUDA_SUCCESS)
        _exit(255);
      const SteadyClock clock;
      TracePlayer player(trace, clock);
      for (int i = 0; i < times; ++i) player.play(TracePlayer::Gaps::kNone);
      _exit(player.result());
    });
    int status = -1;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  // Returns the time in which the device ran something, by its log.
  static Ns busy(Machine& machine) {
    Machine::Lock lock(machine);
    const DeviceModel& device = lock->devices[0];
    Ns sum = 0, until = 0;
    for (std::uint64_t i = 0; i < device.log_end(); ++i) {
      const Stretch& s = device.stretch(i);
      sum += std::max<Ns>(s.end_ns - std::max(s.begin_ns, until), 0);
      until = std::max(until, s.end_ns);
    }
    return sum;
  }
};

TEST_F(TracePlayerTest, KeepsTheDeviceBusyForAsLongAsItWas) {
  const auto machine = open("sms=4 clock=virtual");
  EXPECT_EQ(played(kTrace, 3), 0);
  EXPECT_EQ(busy(*machine), 3 * (1000 + 1600 + 300));
}

// Six blocks on two SMs are three waves.
TEST_F(TracePlayerTest, TakesLongerOnFewerSms) {
  const auto machine = open("sms=2 clock=virtual");
  EXPECT_EQ(played("trace sms=4\nkernel blocks=6 ns=1000 gemm\n"
                   "launch kernel=0 stream=0 gap=0\nsync gap=0\n",
                   1),
            0);
  EXPECT_EQ(busy(*machine), 1500);
}

TEST_F(TracePlayerTest, SaysWhatTheDriverRefused) {
  const auto machine = open("sms=4 clock=virtual memory_mib=512");
  EXPECT_EQ(played("trace sms=4\ncopy to bytes=1000000000 stream=0 gap=0\n", 1),
            CUDA_ERROR_OUT_OF_MEMORY);
  {
    Machine::Lock lock(*machine);
    inject(*lock, "cuModuleLoadData", CUDA_ERROR_INVALID_IMAGE);
  }
  EXPECT_EQ(played(kTrace, 1), CUDA_ERROR_INVALID_IMAGE) << "and is not played";
}

}  // namespace
}  // namespace sluice::emulator
