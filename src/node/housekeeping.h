// A node daemon's periodic work: it charges GPU use past the hook, polls for programs that have
// left their cgroups, and keeps the logs small.
#pragma once

#include "node/enforcer.h"
#include "node/records.h"

namespace sluice::node {

// Begins on `io`; all other arguments must outlive its coroutines. `logs`: the folder.
void start_housekeeping(asio::io_context& io, Enforcer& enforcer, const Records& records,
                        Changes& changes, const std::string& logs);

}  // namespace sluice::node
