// A worker's connection to its job's controller: a stream socket, and a thread that reads it.
//
// send() and the questions may be called from any thread; next() from one.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "train/messages.h"
#include "wire/http/endpoint.h"

namespace sluice::train {

class Link {
 public:
  // Connects and says hello. Returns kUnavailable if nothing listens there.
  static Result<std::shared_ptr<Link>> open(const wire::Endpoint& controller, const Hello& hello);
  ~Link();
  Link(const Link&) = delete;

  // Returns kUnavailable once the controller is gone.
  Result<void> send(const WorkerMessage& message);

  // Returns the next Welcome, Form, Leave or Refused. Returns nullopt when the time is over, or the
  // controller is gone.
  std::optional<ControllerMessage> next(Nanos patience);
  bool lost() const { return lost_; }

  // Whether that generation is to end: the controller said so, or is gone.
  bool halted(int64_t generation) const { return lost_ || halted_ >= generation; }
  // The batch that was last asked for; 0: none since the generation was formed.
  int adapted_batch() const { return adapted_; }
  void forget_adapted() { adapted_ = 0; }

  // Returns what a worker of that generation set. Returns kUnavailable if the generation is to end.
  Result<std::string> wait_for(const std::string& key, int64_t generation);

 private:
  explicit Link(Fd socket);
  void read();
  void take(ControllerMessage message);

  const Fd socket_;
  std::mutex sending_;
  std::mutex lock_;  // of the two below
  std::condition_variable changed_;
  std::deque<ControllerMessage> messages_;
  std::map<std::string, std::string> values_;
  std::atomic<bool> lost_ = false;
  std::atomic<int64_t> halted_ = -1;
  std::atomic<int> adapted_ = 0;
  std::thread reader_;
};

}  // namespace sluice::train
