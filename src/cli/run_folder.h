// Where DATA/run lies. It holds sockets, locks, and what is worth nothing after a reboot: the node
// daemon's state and the gateway's routes. For root it is a link to /run/sluice/N, which is
// memory on most machines, so that what dies can be started again while DATA's disk is full. For
// others it is a folder of DATA: the memory that a session gives its user goes when the user logs
// out.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::cli {

// Makes it. A folder that is there already stays one.
Result<void> make_run_folder(const std::string& data);

}  // namespace sluice::cli
