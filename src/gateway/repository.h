// Triton's model repository, as far as it fits a platform whose functions change by `sluice apply`
// and `sluice delete`. Pure.
#pragma once

#include "gateway/local_answers.h"

namespace sluice::gateway {

// `POST /v2/repository/index`: every revision with traffic and its state; the body's `ready` leaves
// out those that are not ready.
LocalAnswer repository_index(const RoutingTable& table, std::string_view body);

// `POST /v2/repository/models/NAME/load` and `…/unload`, `rest` being "NAME/load". Accepts a load
// of an existing function, and refuses what it would not apply.
LocalAnswer load_or_unload(const RoutingTable& table, std::string_view rest, std::string_view body);

// Returns whether requests to the function need not wait for an instance to start.
bool is_ready(const FunctionRoute& function);

}  // namespace sluice::gateway
