// The runner's hints to the arbiter, in the usage page of its gate.
#include "runtime/runner.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <future>

namespace sluice::runtime {
namespace {

// Runs one batch for each permission.
class Stepped : public Model {
 public:
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate*) override {
    std::unique_lock lock(mutex_);
    ++entered_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return allowed_ > 0; });
    --allowed_;
    return std::vector<Tensor>(inputs.begin(), inputs.end());
  }
  void set_threads(int) override {}

  void allow(int runs) {
    const std::lock_guard lock(mutex_);
    allowed_ += runs;
    changed_.notify_all();
  }
  void await_run(int number) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entered_ >= number; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int entered_ = 0, allowed_ = 0;
};

class RunnerHints : public testing::Test {
 protected:
  RunnerHints() {
    std::array<Fd, 3> fds{page(SLUICE_PERMIT_MAGIC), page(SLUICE_USAGE_MAGIC), page(0)};
    usage_ = static_cast<sluice_usage_page*>(
        mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ, MAP_SHARED, fds[1].get(), 0));
    EXPECT_TRUE(gate_.adopt(fds).ok());
    runner_.emplace(model_, gate_, Batching{}, 1, clock_, statistics_);
  }
  ~RunnerHints() override {
    model_.allow(100);
    runner_.reset();
    munmap(usage_, SLUICE_PAGE_SIZE);
  }

  static Fd page(uint64_t magic) {
    Fd fd(memfd_create("page", MFD_CLOEXEC));
    const sluice_page_header header{magic, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 1, 0};
    EXPECT_EQ(ftruncate(fd.get(), SLUICE_PAGE_SIZE), 0);
    EXPECT_EQ(pwrite(fd.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
    return fd;
  }
  std::future<void> submit(std::optional<Nanos> time_left) {
    auto answered = std::make_shared<std::promise<void>>();
    Work work{.inputs = {Tensor{}}, .time_left = time_left};
    work.done = [answered](const auto&) { answered->set_value(); };
    runner_->submit(std::move(work));
    return answered->get_future();
  }
  // By the time left of an hour, because the clock stands still.
  Nanos due() const {
    const uint64_t word = __atomic_load_n(&usage_->due_ns, __ATOMIC_SEQ_CST);
    return word == 0 ? Nanos::max() : Nanos(word) - clock_.now().time_since_epoch();
  }

  ManualClock clock_;
  Stepped model_;
  Gate gate_;
  Statistics statistics_;
  sluice_usage_page* usage_;
  std::optional<Runner> runner_;
};

TEST_F(RunnerHints, ThePageSaysWhenTheFirstOfAllIsDue) {
  EXPECT_EQ(due(), Nanos::max());
  auto first = submit(Millis(50));
  model_.await_run(1);
  EXPECT_EQ(due(), Millis(50)) << "it runs, and is not answered";
  auto second = submit(Millis(20)), third = submit({});
  EXPECT_EQ(due(), Millis(20)) << "what waits behind it counts too";
  model_.allow(1);
  first.get();
  EXPECT_EQ(due(), Millis(20));
  model_.allow(1);
  second.get();
  EXPECT_EQ(due(), Nanos::max()) << "nobody waits for the third by a time";
  model_.allow(1);
  third.get();
}

TEST_F(RunnerHints, EachBatchIsAnIteration) {
  auto first = submit({});
  model_.await_run(1);
  clock_.advance(Millis(7));
  model_.allow(1);
  first.get();
  EXPECT_EQ(usage_->iterations, 1u);
  EXPECT_EQ(usage_->cycle_ns, 7'000'000u);
  EXPECT_EQ(usage_->kind, 1u) << "one request, compared with such alone";
}

}  // namespace
}  // namespace sluice::runtime
