// GPU memory that two programs of one slice share, through a node daemon that is killed: by the
// device's own account it stays within the slice.
#include "tests/support/eventually.h"
#include "tests/support/node_with_led_programs.h"

namespace sluice {
namespace {

using GpuMemory = NodeWithLedPrograms;

TEST_F(GpuMemory, OneProgramIsNotLentWhatAnotherHasWhenTheDaemonIsKilled) {
  start();
  for (int i = 0; i < kPrograms; ++i) EXPECT_EQ(ask(i, "plain 2"), 0);
  const Bytes left = kSlice - kPrograms * (kContext + 2);
  EXPECT_TRUE(eventually("contexts to be charged",
                         [&] { return available(0) <= left + kPrograms * kHeadroom; }));
  EXPECT_EQ(ask(1, "plain 64"), 0);
  EXPECT_GE(held(), kPrograms * (kContext + 2 - kHeadroom) + 64);
  EXPECT_LE(held(), kSlice);

  node_->restart();
  EXPECT_EQ(node_->get("/v1/state")["status"], 200);
  while (ask(0, "plain 4") == 0) ASSERT_LE(on_device(), kSlice + kPrograms * kHeadroom);
  std::printf("%ld of %ld MiB\n", on_device(), kSlice);
}

}  // namespace
}  // namespace sluice
