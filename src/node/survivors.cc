#include "node/survivors.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

namespace sluice::node {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    found.push_back(at->path());
  return found;
}

// Returns the instance that listens on each socket, by the socket's inode as in /proc/PID/fd. Lines
// of /proc/net/unix: number, references, protocol, flags, type, state, inode, path.
std::map<std::string, InstanceId> listening_in(const std::string& folder) {
  constexpr unsigned long kListens = 0x10000;
  std::map<std::string, InstanceId> found;
  std::ifstream table("/proc/net/unix");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string skipped, flags, inode, path;
    words >> skipped >> skipped >> skipped >> flags >> skipped >> skipped >> inode >> std::ws;
    std::getline(words, path);
    const bool listens = (std::strtoul(flags.c_str(), nullptr, 16) & kListens) != 0;
    if (const fs::path at(path); listens && at.parent_path() == folder && at.extension() == ".sock")
      found["socket:[" + inode + "]"] = at.stem();
  }
  return found;
}

void add_listeners(Survivors& survivors, const std::string& folder) {
  const std::map<std::string, InstanceId> sockets = listening_in(folder);
  if (sockets.empty()) return;
  for (const fs::path& process : entries_of("/proc")) {
    const pid_t pid = std::atoi(process.filename().c_str());
    if (pid <= 0) continue;
    for (const fs::path& descriptor : entries_of(process / "fd")) {
      std::error_code gone;
      const auto socket = sockets.find(fs::read_symlink(descriptor, gone));
      if (socket != sockets.end()) survivors[socket->second].insert(pid);
    }
  }
}

// "a (process 12), b (processes 13, 14)".
std::string listed(const Survivors& survivors) {
  std::string text;
  for (const auto& [id, pids] : survivors) {
    std::string numbers;
    for (const pid_t pid : pids) numbers += (numbers.empty() ? "" : ", ") + std::to_string(pid);
    text += (text.empty() ? "" : ", ") + id + (pids.size() == 1 ? " (process " : " (processes ") +
            numbers + ")";
  }
  return text;
}

}  // namespace

Survivors find_survivors(const Cgroups& cgroups, const std::string& sockets) {
  Survivors survivors;
  for (const auto& [path, pids] : cgroups.populated()) {
    // DEVICE/ID, or a group that a program has made below it; released groups lie one level higher.
    const fs::path group(path);
    if (group.has_parent_path())
      survivors[*std::next(group.begin())].insert(pids.begin(), pids.end());
  }
  add_listeners(survivors, sockets);
  return survivors;
}

Result<NodeState> state_to_start_from(const Registry& registry, const std::string& boot,
                                      Survivors survivors) {
  Result<std::optional<NodeState>> stored = registry.load();
  if (!stored.ok() && survivors.empty())
    return Error{stored.error().kind,
                 stored.error().message +
                     ". No instance of this platform runs: remove the file. Lost with it are which "
                     "devices were drained, and why instances have ended"};
  if (!stored.ok())
    return Error{stored.error().kind, stored.error().message + ". These run: " + listed(survivors) +
                                          ". End them, then remove the file"};
  NodeState state = stored->value_or(NodeState{});
  if (state.boot_id == boot)
    for (const InstanceRecord& r : state.instances) survivors.erase(r.instance.id);
  if (survivors.empty()) return state;
  return Error{ErrorKind::kConflict,
               registry.path() +
                   ": is missing or not the last one, for it does not know these, "
                   "which run: " +
                   listed(survivors) +
                   ". Put the file back, or end them: started without it, the node would reserve "
                   "their shares twice"};
}

}  // namespace sluice::node
