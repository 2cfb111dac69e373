// The words of NVIDIA's MPS control program: a command is a line on its standard input, and it
// prints the answer. NVIDIA documents commands and what they do, not how answers look; so what is
// read here is what the documentation names, and all else is an error that quotes it. Pure.
//
// Not here: what sets defaults of a whole server. Slices differ, and a client is told its own
// limits in its environment (program_environment.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace sluice::node {

struct MpsListServers {};
struct MpsStartServer {
  uid_t user = 0;  // whose clients it will serve
};
struct MpsShutDownServer {  // once it has no clients
  pid_t server = 0;
};
struct MpsServerStatus {
  pid_t server = 0;
};
struct MpsListClients {
  pid_t server = 0;
};
// Ends the client's contexts, also busy ones, and nobody else's; the process lives on, and may be
// killed then.
struct MpsTerminateClient {
  pid_t server = 0;
  pid_t client = 0;
};
struct MpsQuit {};  // the control daemon, once the servers have no clients

using MpsCommand = std::variant<MpsListServers, MpsStartServer, MpsShutDownServer, MpsServerStatus,
                                MpsListClients, MpsTerminateClient, MpsQuit>;

// As it is typed, with its newline.
std::string line_of(const MpsCommand& command);

enum class MpsServerState { kInitializing, kActive, kFault };

// The answers. An Error says what was printed instead, shortened to one printable line.
Error refusal_in(std::string_view answer);
Result<std::vector<pid_t>> pids_in(std::string_view answer);
Result<MpsServerState> server_state_in(std::string_view answer);
Result<void> termination_in(std::string_view answer);

}  // namespace sluice::node
