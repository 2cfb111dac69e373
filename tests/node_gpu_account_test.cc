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
    Nanos charged, device;
  };
  Use use() {
    const json state = node_->get("/v1/state");
    return {Nanos(state["instances"][0]["used_ns"].get<int64_t>()), busy(1)};
  }
  Use use_over(Nanos span) {
    const Use before = use();
    let_programs_work(span);
    const Use now = use();
    return {now.charged - before.charged, now.device - before.device};
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
  std::printf("charged %.3f of what it used\n", seconds(charged.charged) / seconds(charged.device));
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
