// A test beside a stand-in for the API server, with a client of it whose coroutines run on a thread
// of their own.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <thread>
#include <utility>

#include "kube/client.h"
#include "kube/wait.h"
#include "tests/support/fake_kube.h"

namespace sluice {

class KubeClientTest : public testing::Test {
 protected:
  KubeClientTest()
      : client_(kube::Client::make(io_, server_.config()).value()),
        work_(io_.get_executor()),
        thread_([this] { io_.run(); }) {}
  // Before what a test's coroutines refer to is gone.
  void TearDown() override {
    io_.stop();
    thread_.join();
  }

  // What the work refers to is the test's member, not a local of its body: it goes on to
  // TearDown().
  void spawn(boost::asio::awaitable<void> work) { kube::spawn(io_, std::move(work)); }
  template <class T>
  T wait(boost::asio::awaitable<T> work) {
    return kube::run_on(io_, std::move(work));
  }

  FakeKube server_;
  boost::asio::io_context io_{1};
  std::unique_ptr<kube::Client> client_;

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace sluice
