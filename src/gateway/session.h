// A session: one client connection, its requests one after the other. Each request goes through
// numbered steps (session.cc): read the head, find the function, take a place in its queue, read a
// small body, wait for an instance, ask it, relay its answer.
//
// Runs on its loop's thread. Owns its stream; holds at most one request.
#pragma once

#include <memory>

#include "gateway/io.h"
#include "gateway/local_answers.h"
#include "gateway/loop.h"
#include "gateway/watch.h"

namespace sluice::gateway {

// Serves until the client leaves or the loop stops.
Awaitable<void> serve(Loop& loop, std::unique_ptr<Stream> stream, const SessionLimits& limits,
                      const LocalAnswers& local);

}  // namespace sluice::gateway
