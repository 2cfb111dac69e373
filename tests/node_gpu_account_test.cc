// What the node daemon charges programs on a GPU, by the account that the device keeps of
// processes. Each holds a permit of half the device and uses less; nothing else wants it.
#include "tests/support/eventually.h"
#include "tests/support/node_with_gpus.h"

namespace sluice {
namespace {

class GpuAccount : public NodeWithGpus {
 protected:
  struct Use {
    Nanos charged, device, ungated;
  };
  Use use() {
    const json program = node_->get("/v1/state")["instances"][0];
    return {Nanos(program["used_ns"].get<int64_t>()), busy(1),
            Nanos(program["ungated_ns"].get<int64_t>())};
  }
  // What was charged, as a part of what the device did.
  double charged_over(Nanos span) {
    const Use before = use();
    let_programs_work(span);
    const Use now = use();
    const double part = seconds(now.charged - before.charged) / seconds(now.device - before.device);
    std::printf("charged %.3f of what it used\n", part);
    return part;
  }
  void start(const Start& program) {
    start_program("cuda1", program, Node::slice(500));
    ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(1) >= Millis(32); }));
  }
};

TEST_F(GpuAccount, AHonestProgramPaysForWhatItUses) {
  start({SLUICE_CUDA_GREEDY, "sparse"});
  EXPECT_TRUE(eventually("its kernels to be known", [&] {
    const double part = charged_over(Millis(500));
    return part > 0.8 && part < 1.25;
  }));
  EXPECT_EQ(use().ungated, Nanos(0));
}

TEST_F(GpuAccount, TheSliceOfAProgramThatNeverComesToTheGateIsCharged) {
  start({SLUICE_CUDA_GREEDY, "kernel", false});
  ASSERT_TRUE(eventually("its use to be found", [&] { return use().ungated > Seconds(1); }));
  const Use all = use();
  EXPECT_EQ(all.charged, all.ungated) << "it reports nothing";
  EXPECT_LE(all.ungated, all.device + Millis(100)) << "whole percents of each interval";
}

TEST_F(GpuAccount, SoIsThatOfOneThatReportsNothing) {
  start({SLUICE_CUDA_MISREPORTS, "", false});
  ASSERT_TRUE(eventually("its use to be found", [&] { return use().ungated > Millis(100); }));
  EXPECT_GT(charged_over(Seconds(3)), 0.5);
}

}  // namespace
}  // namespace sluice
