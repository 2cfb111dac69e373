// Recorded launches: what is read, what is refused, and how long the emulated device takes for
// them.
#include "tests/emulator/launch_trace.h"

#include <gmock/gmock.h>

#include "tests/emulator/module_text.h"

namespace sluice::emulator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = TraceStep::Kind;

constexpr const char* kTrace = R"(# two kernels, one of them in a graph
trace sms=4
kernel blocks=6 ns=1000 void gemm<float, 128>(int)
kernel blocks=2 ns=300 relu
graph 0 1 1
launch kernel=1 stream=0 gap=50
launch graph=0 stream=2 gap=0
copy from bytes=4096 stream=2 gap=7

sync gap=1
)";

TEST(LaunchTrace, IsReadAsItWasWritten) {
  LaunchTrace trace;
  std::string why;
  ASSERT_TRUE(read_trace(kTrace, trace, why)) << why;
  EXPECT_EQ(trace.sms, 4U);
  EXPECT_EQ(trace.streams, 3U);
  ASSERT_EQ(trace.kernels.size(), 2U);
  EXPECT_EQ(trace.kernels[0].name, "void gemm<float, 128>(int)");
  EXPECT_EQ(trace.kernels[0].blocks, 6U);
  EXPECT_THAT(trace.graphs, ElementsAre(ElementsAre(0U, 1U, 1U)));
  ASSERT_EQ(trace.steps.size(), 4U);
  EXPECT_EQ(trace.steps[0].kind, Kind::kKernel);
  EXPECT_EQ(trace.steps[0].gap_ns, 50U);
  EXPECT_EQ(trace.steps[1].kind, Kind::kGraph);
  EXPECT_EQ(trace.steps[2].kind, Kind::kCopyFrom);
  EXPECT_EQ(trace.steps[2].bytes, 4096U);
  EXPECT_EQ(trace.steps[3].kind, Kind::kSync);
}

// Six blocks on four SMs are two waves.
TEST(LaunchTrace, AKernelTakesOnTheSameDeviceWhatItTook) {
  LaunchTrace trace;
  std::string why;
  ASSERT_TRUE(read_trace(kTrace, trace, why)) << why;
  std::vector<KernelText> kernels;
  ASSERT_TRUE(read_module(module_of(trace), kernels));
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "k0");
  EXPECT_EQ(kernels[0].kernel.wave_ns, 500);
  EXPECT_EQ(kernels[1].kernel.wave_ns, 300);
}

TEST(LaunchTrace, WhatIsWrongIsNamed) {
  const struct {
    const char *text, *why;
  } kCases[] = {
      {"", "no launch"},
      {"sync gap=1", "line 1: sync: has to be trace"},
      {"trace sms=0", "line 1: sms=0: has to be sms=1 … 1024"},
      {"trace sms=1\ntrace sms=1", "line 2: trace"},
      {"trace sms=1\nkernel blocks=1", "line 2: nothing: has to be ns="},
      {"trace sms=1\nlaunch kernel=0 stream=0 gap=0", "line 2: kernel=0: has to be kernel=N"},
      {"trace sms=1\ngraph 0", "line 2: 0: has to be a kernel"},
      {"trace sms=1\ncopy up bytes=1 stream=0 gap=0", "line 2: up: has to be to, from"},
      {"trace sms=1\ncopy to bytes=1 stream=4096 gap=0", "stream=0 … 1023"},
      {"trace sms=1\nsync gap=1 now", "line 2: now: has to be the end"},
      {"trace sms=1\nwait", "line 2: wait: has to be trace, kernel"},
  };
  for (const auto& c : kCases) {
    LaunchTrace trace;
    std::string why;
    EXPECT_FALSE(read_trace(c.text, trace, why)) << c.text;
    EXPECT_THAT(why, HasSubstr(c.why));
  }
}

}  // namespace
}  // namespace sluice::emulator
