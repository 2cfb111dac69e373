// Triton's model repository, as far as a platform has one whose functions come and go by
// `sluice apply` and `sluice delete`. Pure.
#pragma once

#include "gateway/local_answers.h"

namespace sluice::gateway {

// `POST /v2/repository/index`: every revision that has traffic and its state; the body's `ready`
// leaves those out that are not ready.
LocalAnswer repository_index(const RoutingTable& table, std::string_view body);

// `POST /v2/repository/models/NAME/load` and `…/unload`, `rest` being "NAME/load". Loads what is
// there already, and refuses what it would not apply.
LocalAnswer load_or_unload(const RoutingTable& table, std::string_view rest, std::string_view body);

// Whether requests to the function need not wait for an instance to start.
bool is_ready(const FunctionRoute& function);

}  // namespace sluice::gateway
