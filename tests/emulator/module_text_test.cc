// The texts that stand for programs of the emulated device.
#include "tests/emulator/module_text.h"

#include <gtest/gtest.h>

namespace sluice::emulator {
namespace {

TEST(ModuleText, OneLineAKernel) {
  std::vector<KernelText> kernels;
  ASSERT_TRUE(read_module("# two\nkernel a ns=10\n\nkernel b ns=20 sms=4 bandwidth=500 fault=719\n",
                          kernels));
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].name, "a");
  EXPECT_EQ(kernels[0].kernel.wave_ns, 10);
  EXPECT_EQ(kernels[1].kernel.most_sms, 4U);
  EXPECT_EQ(kernels[1].kernel.bandwidth, 500U);
  EXPECT_EQ(kernels[1].fault, 719);
  EXPECT_NE(kernels[0].kernel.function, kernels[1].kernel.function);
}

TEST(ModuleText, WithinAnotherProgramOnlyItsOwnLinesCount) {
  std::vector<KernelText> kernels;
  ASSERT_TRUE(
      read_module("//@ kernel a ns=10\n.version 6.3\n.visible .entry a() { ret; }\n", kernels));
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "a");
}

TEST(ModuleText, AnythingElseIsRefused) {
  for (const char* text : {"kernel", "kernel a", "kernel ns=5", "kernel a ns=0", "kernel a ns=x",
                           "kernel a ns=5 colour=1", "ELF", ".version 6.3"}) {
    std::vector<KernelText> kernels;
    EXPECT_FALSE(read_module(text, kernels)) << text;
  }
}

}  // namespace
}  // namespace sluice::emulator
