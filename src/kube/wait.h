// How coroutines are started on the client's io_context, and how another thread waits for one.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <exception>
#include <future>
#include <utility>

#include "base/log.h"

namespace sluice::kube {

// Starts a coroutine that runs as long as its process. An exception in it ends the process: without
// the coroutine, the process would go on with a copy that does not follow, or writes that wait.
inline void spawn(boost::asio::io_context& io, boost::asio::awaitable<void> work) {
  boost::asio::co_spawn(io, std::move(work), [](const std::exception_ptr& fault) {
    if (!fault) return;
    try {
      std::rethrow_exception(fault);
    } catch (const std::exception& e) {
      log::error("a coroutine has ended: {}", e.what());
    }
    std::abort();
  });
}

// Returns the coroutine's result, or throws what it throws.
// REQUIRES: another thread runs `io`, and does until this returns.
template <class T>
T run_on(boost::asio::io_context& io, boost::asio::awaitable<T> work) {
  std::promise<T> promise;
  std::future<T> result = promise.get_future();
  boost::asio::co_spawn(
      io,
      [](boost::asio::awaitable<T> w, std::promise<T> p) -> boost::asio::awaitable<void> {
        try {
          p.set_value(co_await std::move(w));
        } catch (...) {
          p.set_exception(std::current_exception());
        }
      }(std::move(work), std::move(promise)),
      boost::asio::detached);
  return result.get();
}

}  // namespace sluice::kube
