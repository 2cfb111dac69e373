// PeerThread: runs the calls to all peers of a cluster, as coroutines (peer_calls.h).
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

namespace sluice::control {

namespace asio = boost::asio;

class PeerThread {
 public:
  PeerThread() : work_(io_.get_executor()), thread_([this] { io_.run(); }) {}
  // Ends the calls that run.
  ~PeerThread() {
    io_.stop();
    thread_.join();
  }
  PeerThread(const PeerThread&) = delete;
  PeerThread& operator=(const PeerThread&) = delete;

  asio::io_context& io() { return io_; }

 private:
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace sluice::control
