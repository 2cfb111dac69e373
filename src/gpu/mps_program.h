// NVIDIA's MPS control program as a process: in the foreground it is a GPU's control daemon, and
// for a moment, with a command on its standard input, it asks the one whose pipes it is told.
//
// Free functions; those that wait belong to the daemon's loop.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>

#include "base/clock.h"
#include "gpu/mps_protocol.h"
#include "process/process_identity.h"
#include "process/spawn.h"

namespace sluice::node {

namespace asio = boost::asio;

// Of one GPU's control daemon. Paths are absolute.
struct MpsPlace {
  std::string program;
  std::string gpu;     // its UUID: the only one that the control daemon and its servers see
  std::string pipes;   // where its clients find it (CUDA_MPS_PIPE_DIRECTORY)
  std::string logs;    // its own and its servers' (CUDA_MPS_LOG_DIRECTORY)
  std::string output;  // a file: what it prints
};

// `name` as it is where it holds a slash, else where PATH finds it; kNotFound.
Result<std::string> find_mps_program(const std::string& name);

// Makes the place's folders. As root, servers and clients of other users find the pipes, and cannot
// change what lies there. kInvalid: the path is too long for the sockets that come to lie there.
Result<void> prepare(const MpsPlace& place);

// A control daemon of the place, in a session of its own: it outlives us.
Result<SpawnedProcess> start_control_daemon(const MpsPlace& place);

// The place's control daemon that runs already, if any: the one that wrote its pid there, and whose
// user, command line and environment say that it is meant.
std::optional<ProcessIdentity> running_control_daemon(const MpsPlace& place);

// What the place's control daemon answers. kUnavailable: there is none; kTimeout.
asio::awaitable<Result<std::string>> ask_control_daemon(asio::io_context& io, MpsPlace place,
                                                        MpsCommand command, Nanos patience);

}  // namespace sluice::node
