// The version of a node's state, incremented at every change, and the coroutines that wait for the
// next one. Versions begin anew with each daemon.
//
// Belongs to one io_context with one thread, and must outlive the coroutines that it resumes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <set>

#include "base/clock.h"

namespace sluice::node {

namespace asio = boost::asio;

class Changes {
 public:
  explicit Changes(asio::io_context& io) : io_(io) {}
  Changes(const Changes&) = delete;

  uint64_t version() const { return version_; }
  // Counts a change and resumes all waiting coroutines.
  void notify();
  // Returns after a change past `version`, or after `patience`.
  asio::awaitable<void> after(uint64_t version, Nanos patience);

 private:
  asio::io_context& io_;
  uint64_t version_ = 0;
  std::set<asio::steady_timer*> waiting_;  // one per after(), cancelled to resume it
};

}  // namespace sluice::node
