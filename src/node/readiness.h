// Probes whether a program that serves HTTP is ready. Coroutines of the daemon's loop.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "wire/http/endpoint.h"

namespace sluice::node {

namespace asio = boost::asio;

struct Probe {
  enum class Where { kHere, kElsewhere };

  wire::Endpoint at;  // a unix path, a port of 127.0.0.1, or elsewhere an IP address with a port
  std::string path;   // of the GET; empty: a connection is enough
  uid_t uid = 0;      // of the program; 0: the daemon's. At a port here, no other user may listen
  Where where = Where::kHere;  // elsewhere: at a Pod's address
};

// Probes once. An error says what the program lacks: it does not listen, or answers no 2xx within
// `patience`.
asio::awaitable<Result<void>> probe_once(Probe probe, Nanos patience);

// Probes until the program is ready. Returns kUnavailable if the process behind `pidfd` has ended;
// kTimeout if it is not ready after `patience`, with what it lacked last.
asio::awaitable<Result<void>> ready_within(asio::io_context& io, const Clock& clock, Probe probe,
                                           int pidfd, Nanos patience);

}  // namespace sluice::node
