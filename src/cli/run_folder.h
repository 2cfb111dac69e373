// The place of DATA/run. It holds sockets, locks, and state that is worthless after a reboot: the
// node daemon's state and the gateway's routes. For root it is a link to /run/sluice/N, which is
// memory on most machines, so that dead processes can be restarted while DATA's disk is full. For
// other users it is a folder of DATA: the memory of a user's session goes when the user logs out.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::cli {

// Makes it. An existing folder stays one.
Result<void> make_run_folder(const std::string& data);

}  // namespace sluice::cli
