// The one thread that runs a model: takes work from any thread, batches it, answers on its own
// thread. A request that makes a batch fail fails alone: the others run again without it. A request
// larger than a batch runs alone, one part after the other.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "runtime/batcher.h"
#include "runtime/engine.h"
#include "runtime/statistics.h"

namespace sluice::runtime {

struct Computed {
  std::vector<Tensor> outputs;
  wire::ComputeReport report;
};

struct Work {
  std::vector<Tensor> inputs;
  int inferences = 1;
  std::string key;
  std::optional<int> more;
  std::optional<Nanos> time_left;  // until it should be answered
  // Called once, on the runner's thread; must not block.
  std::function<void(Result<Computed>)> done;
};

class Runner {
 public:
  // All outlive the runner; `model` and `gate` belong to its thread from now on.
  Runner(Model& model, Gate& gate, const Batching& batching, int threads, const Clock& clock,
         Statistics& statistics);
  ~Runner();  // answers waiting work, then ends
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void submit(Work work);
  // For batches from now on, if the permit page does not give the number of cores.
  void set_threads(int threads);

 private:
  struct Pending {
    Work work;
    Time arrived{};
    Time due = Time::max();
  };

  void loop();
  std::vector<Pending> next_batch(std::unique_lock<std::mutex>& lock);
  void use_threads(int told);
  void run(std::vector<Pending> batch);
  Result<std::vector<Computed>> execute(const std::vector<Pending>& batch);
  Result<Computed> execute_in_parts(const Work& work);
  void answer(Pending& pending, Result<Computed> outcome, Time began);
  void tell_due();

  Model& model_;
  Gate& gate_;
  const Clock& clock_;
  Statistics& statistics_;
  const int batch_;  // inferences that run at a time

  std::mutex mutex_;
  std::condition_variable changed_;
  Batcher batcher_;
  std::map<uint64_t, Pending> pending_;
  std::multiset<Time> due_;  // of all unanswered work
  uint64_t last_ticket_ = 0;
  int threads_;
  int used_threads_ = 0;  // the runner's thread alone
  bool stopping_ = false;
  std::thread thread_;  // last: starts when all else is ready
};

}  // namespace sluice::runtime
