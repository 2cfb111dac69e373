// One thread for work that takes as long as a disk does: it carries out what it is given in order.
// Its end drops what has not begun; what has is told by stopping().
//
// post() may be called by any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice::control {

class DiskThread {
 public:
  DiskThread() : thread_([this] { run(); }) {}
  ~DiskThread() {
    stopping_ = true;
    {
      const std::lock_guard guard(lock_);
      changed_.notify_all();
    }
    thread_.join();
  }
  DiskThread(const DiskThread&) = delete;

  template <class F>
  auto post(F work) {
    auto task = std::make_shared<std::packaged_task<decltype(work())()>>(std::move(work));
    const std::lock_guard guard(lock_);
    waiting_.emplace_back([task] { (*task)(); });
    changed_.notify_all();
    return task->get_future();
  }
  const std::atomic<bool>& stopping() const { return stopping_; }

 private:
  void run() {
    std::unique_lock guard(lock_);
    for (;;) {
      changed_.wait(guard, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      const std::function<void()> next = std::move(waiting_.front());
      waiting_.pop_front();
      guard.unlock();
      next();
      guard.lock();
    }
  }

  std::atomic<bool> stopping_ = false;
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::thread thread_;
};

}  // namespace sluice::control
