// A session: one client connection, its requests one after the other. Each request goes through
// numbered steps (session.cc): read the head, find the function, read the body or its beginning,
// take a place in the queue, wait for an instance, ask it, relay its answer.
//
// Runs on its loop's thread. Owns its stream; holds at most one request.
#pragma once

#include <memory>

#include "gateway/io.h"
#include "gateway/local_answers.h"
#include "gateway/loop.h"
#include "gateway/watch.h"

namespace sluice::gateway {

// Serves until the client leaves or the loop stops. `peer`: its address, hashed; 0: none.
Awaitable<void> serve(Loop& loop, std::unique_ptr<Stream> stream, const SessionLimits& limits,
                      const LocalAnswers& local, uint64_t peer = 0);

}  // namespace sluice::gateway
