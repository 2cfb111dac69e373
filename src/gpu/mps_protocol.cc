#include "gpu/mps_protocol.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice::node {
namespace {

constexpr size_t kQuoted = 160;  // of an answer that is not understood

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

// Cuts the next word off `text`; empty: there is none.
std::string_view next_word(std::string_view& text) {
  const auto* begin = std::ranges::find_if_not(text, is_space);
  const auto* end = std::find_if(begin, text.end(), is_space);
  text = std::string_view(end, text.end());
  return {begin, end};
}

bool says(std::string_view answer, std::string_view wanted) {
  for (std::string_view word = next_word(answer); !word.empty(); word = next_word(answer))
    if (word == wanted) return true;
  return false;
}

std::optional<pid_t> pid_of(std::string_view word) {
  pid_t pid = 0;
  const auto [end, fault] = std::from_chars(word.begin(), word.end(), pid);
  if (fault != std::errc() || end != word.end() || pid <= 0) return std::nullopt;
  return pid;
}

struct Line {
  std::string operator()(MpsListServers) const { return "get_server_list"; }
  std::string operator()(MpsStartServer c) const {
    return "start_server -uid " + std::to_string(c.user);
  }
  std::string operator()(MpsShutDownServer c) const {
    return "shutdown_server " + std::to_string(c.server);
  }
  std::string operator()(MpsServerStatus c) const {
    return "get_server_status " + std::to_string(c.server);
  }
  std::string operator()(MpsListClients c) const {
    return "get_client_list " + std::to_string(c.server);
  }
  std::string operator()(MpsTerminateClient c) const {
    return "terminate_client " + std::to_string(c.server) + " " + std::to_string(c.client);
  }
  std::string operator()(MpsQuit) const { return "quit"; }
};

}  // namespace

std::string line_of(const MpsCommand& command) {
  return std::visit(Line(), command) + "\n";
}

Error refusal_in(std::string_view answer) {
  std::string quoted;
  for (std::string_view word = next_word(answer); !word.empty() && quoted.size() < kQuoted;
       word = next_word(answer))
    quoted += (quoted.empty() ? "" : " ") + std::string(word.substr(0, kQuoted));
  quoted.resize(std::min(quoted.size(), kQuoted));
  std::ranges::replace_if(
      quoted, [](char c) { return c < ' ' || c > '~'; }, '?');
  return {ErrorKind::kInternal, quoted.empty() ? "MPS says nothing" : "MPS says '" + quoted + "'"};
}

Result<std::vector<pid_t>> pids_in(std::string_view answer) {
  std::vector<pid_t> pids;
  std::string_view left = answer;
  for (std::string_view word = next_word(left); !word.empty(); word = next_word(left)) {
    const std::optional<pid_t> pid = pid_of(word);
    if (!pid) return refusal_in(answer);
    pids.push_back(*pid);
  }
  return pids;
}

Result<MpsServerState> server_state_in(std::string_view answer) {
  if (says(answer, "FAULT")) return MpsServerState::kFault;
  if (says(answer, "INITIALIZING")) return MpsServerState::kInitializing;
  if (says(answer, "ACTIVE")) return MpsServerState::kActive;
  return refusal_in(answer);
}

Result<void> termination_in(std::string_view answer) {
  std::string_view last, left = answer;
  for (std::string_view word = next_word(left); !word.empty(); word = next_word(left)) last = word;
  if (last == "0" || last == "CUDA_SUCCESS") return {};
  return refusal_in(answer);
}

}  // namespace sluice::node
