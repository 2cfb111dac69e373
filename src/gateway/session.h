// A session: one client connection, its requests one after the other. Each request goes through
// numbered steps (session.cc): read the head, find the function, take a place in its queue, read a
// small body, wait for an instance, exchange, answer.
//
// Runs on its loop's thread. Owns its socket; holds at most one request.
#pragma once

#include <atomic>
#include <boost/asio/ssl/stream.hpp>
#include <memory>

#include "gateway/local_answers.h"
#include "gateway/loop.h"

namespace sluice::gateway {

using TlsSocket = asio::ssl::stream<Socket>;

struct SessionLimits {
  size_t header_bytes = 32 * 1024;
  size_t kept_body_bytes = 1 << 20;  // bodies up to this are kept until the answer begins
  Nanos idle = Seconds(75);          // between requests
  Nanos head = Seconds(20);          // for the rest of a head, once begun
  Nanos stall = Seconds(30);         // without a byte, either way
};

// Serves until the client leaves or the loop stops. Instantiated for Socket and TlsSocket.
template <class Stream>
Awaitable<void> serve(Loop& loop, Stream stream, const SessionLimits& limits,
                      const LocalAnswers& local);

}  // namespace sluice::gateway
