// Whom the node daemon believes on a GPU, by the account that the device keeps of processes. Both
// programs hold a permit of half the device and use less; nothing else wants it.
#include "base/eventually_for_test.h"
#include "tests/node_with_gpus.h"

namespace sluice {
namespace {

class GpuAccount : public NodeWithGpus {
 protected:
  // Of a program on cuda1, over a stretch of time.
  struct Use {
    Nanos charged, device, ungated;
  };
  Use use() {
    const json state = node_->get("/v1/state");
    const json& program = state["instances"][0];
    return {Nanos(program["used_ns"].get<int64_t>()), busy(1),
            Nanos(program["ungated_ns"].get<int64_t>())};
  }
  Use use_over(Nanos span) {
    const Use before = use();
    let_programs_work(span);
    const Use now = use();
    return {now.charged - before.charged, now.device - before.device, now.ungated - before.ungated};
  }
  void start(const Start& program) {
    start_program("cuda1", program, Node::slice(500));
    ASSERT_TRUE(eventually("32 ms of work", [&] { return busy(1) >= Millis(32); }));
  }
};

TEST_F(GpuAccount, WhoTellsTheTruthPaysForWhatItUses) {
  start({SLUICE_CUDA_GREEDY, "sparse"});
  Use charged{};
  EXPECT_TRUE(eventually("to be believed", [&] {
    charged = use_over(Millis(500));
    return charged.device > Millis(10) && charged.charged < charged.device * 3 / 2;
  }));
  EXPECT_EQ(use().ungated, Nanos(0));
  std::printf("charged %.3f of what it used\n", seconds(charged.charged) / seconds(charged.device));
}

TEST_F(GpuAccount, WhoNeverComesToTheGateIsFoundOutAndItsSlicePays) {
  start({SLUICE_CUDA_GREEDY, "kernel", false});
  ASSERT_TRUE(eventually("it to be found out", [&] { return use().ungated > Seconds(1); }));
  const Use all = use();
  EXPECT_EQ(all.charged, all.ungated) << "its meter knows nobody";
  EXPECT_LE(all.ungated, all.device + Millis(100)) << "whole percents of each stretch";
}

TEST_F(GpuAccount, WhoLiesPaysForItsLease) {
  start({SLUICE_CUDA_LIAR, "", false});
  const Use charged = use_over(Seconds(3));
  EXPECT_GT(charged.device, Nanos(0));
  EXPECT_GT(charged.charged, 2 * charged.device);
  std::printf("charged %.3f of what it used\n", seconds(charged.charged) / seconds(charged.device));
}

}  // namespace
}  // namespace sluice
