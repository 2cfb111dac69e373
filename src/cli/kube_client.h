// What the processes on a cluster have in common: a client of the API server, on a thread of its
// own.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "kube/client.h"

namespace sluice::cli {

class KubeThread {
 public:
  // `kubeconfig`: empty: this Pod's ServiceAccount, or $KUBECONFIG. Its coroutines begin to run
  // with start().
  static Result<std::unique_ptr<KubeThread>> make(const std::string& kubeconfig);
  ~KubeThread();  // stop()s

  void start();
  // Ends the coroutines where they are. To be called before what they refer to is gone.
  void stop();
  kube::Client& client() { return *client_; }
  boost::asio::io_context& io() { return io_; }
  void spawn(boost::asio::awaitable<void> work);

 private:
  KubeThread() : work_(io_.get_executor()) {}

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unique_ptr<kube::Client> client_;
  std::thread thread_;
};

Result<kube::Config> kube_config(const std::string& kubeconfig);

// From now on SIGTERM and SIGINT end the process, until something else handles them. A container's
// first process would ignore them.
void end_when_asked();

// Calls it until it succeeds: at the start, the API server may not be there yet.
template <class T>
T insist(const std::string& what, const std::function<Result<T>()>& work) {
  for (;;) {
    Result<T> done = work();
    if (done.ok()) return std::move(*done);
    log::warn("{}: {}", what, done.error().message);
    std::this_thread::sleep_for(Seconds(1));
  }
}

}  // namespace sluice::cli
