// A generation's group: Gloo's connections between its workers, and the collective operations over
// them. One thread of the group's runs them one after the other, in the order of the calls, so that
// they overlap with the worker's own computation. Every rank has to call the same ones.
//
// An error is for good: the group can only be destroyed then. Belongs to one thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "train/link.h"

namespace gloo {
class Context;
}

namespace sluice::train {

class Group {
 public:
  // Connects the ranks, which find each other by the controller's store. Returns kUnavailable if
  // one of them does not come, or at once when the controller ends the generation.
  // The clock outlives the group.
  static Result<std::unique_ptr<Group>> form(std::shared_ptr<Link> link, const Form& form,
                                             const Clock& clock);
  ~Group();
  Group(const Group&) = delete;

  // Each replaces the ranks' numbers by their sum, resp. by rank 0's bytes. The memory must stay as
  // it is until wait() has returned.
  void sum(float* numbers, size_t count);
  void broadcast(char* bytes, size_t count);

  // Waits until all are done. Returns kUnavailable if a rank has failed.
  Result<void> wait();
  // Returns the seconds of each operation that the last wait() has seen done, in their order. Empty
  // in a group of one rank.
  std::vector<double> seconds_of_operations() const { return waited_for_; }

  int rank() const { return rank_; }
  int world() const { return world_; }

 private:
  Group(const Form& form, std::shared_ptr<gloo::Context> context, const Clock& clock);
  void enqueue(std::function<void()> operation);
  void work();

  const int rank_, world_;
  const std::shared_ptr<gloo::Context> context_;  // nullptr: of one rank, whose operations are none
  const Clock& clock_;
  uint32_t tag_ = 0;

  std::mutex lock_;  // of all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;  // the first one is being run
  std::string fault_;
  bool ending_ = false;
  std::vector<double> seconds_;  // of each operation done since the last wait()
  std::thread thread_;

  std::vector<double> waited_for_;  // of the caller's thread
};

}  // namespace sluice::train
