#include "node/mps_controls.h"

#include <unistd.h>

#include <filesystem>

#include "base/log.h"

namespace sluice::node {

// Without links: servers and clients of other users may have no way through DATA.
MpsPlace mps_place(const std::string& program, const Device& gpu, const DataPaths& paths) {
  return {.program = program,
          .gpu = gpu.uuid,
          .pipes = std::filesystem::weakly_canonical(paths.mps_pipes(gpu.id)),
          .logs = std::filesystem::absolute(paths.mps_logs(gpu.id)),
          .output = std::filesystem::absolute(paths.mps_output(gpu.id))};
}

MpsControls::MpsControls(asio::io_context& io, const Clock& clock, const std::string& program,
                         std::string absent, uid_t user, const DataPaths& paths,
                         const NodeState& state, const std::function<void()>& changed)
    : absent_(std::move(absent)), functions_user_(user), state_(state) {
  for (const auto& [d, cores] : state.devices) {
    if (d.kind != DeviceKind::kCuda || !d.mps || program.empty()) continue;
    controls_[d.id] =
        std::make_unique<MpsControl>(io, clock, mps_place(program, d, paths), user, changed);
    controls_[d.id]->start();
  }
}

std::string MpsControls::describe(const DeviceId& gpu) const {
  if (const auto found = controls_.find(gpu); found != controls_.end())
    return found->second->describe();
  return "off: " + (absent_.empty() ? "it cannot confine a client's SMs" : absent_);
}

// Other instances of ours have uids of their own.
std::optional<uid_t> MpsControls::user_of(const InstanceRecord& r) const {
  if (r.foreign) return uid_of(r.process.pid);
  const uid_t user = r.uid == 0 ? geteuid() : r.uid;
  return user == functions_user_ ? std::optional(user) : std::nullopt;
}

// Returns a client of that user; nullptr if there is none.
const InstanceRecord* MpsControls::holder(const DeviceId& gpu, uid_t user) const {
  for (const InstanceRecord& r : state_.instances)
    if (alive(r) && r.instance.parts.size() == 1 && r.instance.device() == gpu &&
        user_of(r) == user)
      return &r;
  return nullptr;
}

// Only root's control daemon starts servers of other users.
bool MpsControls::may_serve(uid_t user) const {
  return geteuid() == 0 || user == geteuid();
}

std::string MpsControls::why_not(const DeviceId& gpu, std::optional<uid_t> user) const {
  const auto found = controls_.find(gpu);
  if (found == controls_.end() || !found->second->ready()) return describe(gpu);
  if (!user || !may_serve(*user)) return "its server has no clients of this program's user";
  const uid_t served = found->second->user();
  const InstanceRecord* other = *user != served ? holder(gpu, served) : nullptr;
  if (other == nullptr) return "";
  return "its server has clients of one user: now of user " + std::to_string(served) + ", as '" +
         other->instance.id + "', until the last of these has ended";
}

// A program with all SMs that took the server from functions would hold them up for nothing.
Result<std::optional<std::string>> MpsControls::pipes_for(const DeviceId& gpu, const Slice& slice,
                                                          std::optional<uid_t> user) const {
  const auto found = controls_.find(gpu);
  const std::string why = why_not(gpu, user);
  if (why.empty() &&
      (slice.sm != kWhole || user == functions_user_ || user == found->second->user()))
    return std::optional(found->second->place().pipes);
  if (slice.sm == kWhole) return std::optional<std::string>();
  const bool never = found == controls_.end() || !user || !may_serve(*user);
  const ErrorKind kind = never                    ? ErrorKind::kInvalid
                         : found->second->ready() ? ErrorKind::kExhausted
                                                  : ErrorKind::kUnavailable;
  return Error{kind,
               "slice.sm: " + gpu + " has parts of its SMs for clients of MPS alone (" + why + ")"};
}

void MpsControls::serve(const InstanceRecord& r) {
  if (r.instance.parts.size() != 1) return;
  const std::optional<uid_t> user = user_of(r);
  const auto pipes = pipes_for(r.instance.device(), r.instance.slice(), user);
  if (pipes.ok() && *pipes) controls_.at(r.instance.device())->serve(*user);
}

asio::awaitable<void> MpsControls::terminate(DeviceId gpu, ProcessIdentity client) {
  const auto found = controls_.find(gpu);
  if (found == controls_.end()) co_return;
  const Result<void> done = co_await found->second->terminate(client);
  if (!done.ok())
    log::warn("{}: MPS has not ended client {}: {}; its neighbours may suffer from its end", gpu,
              client.pid, done.error().message);
}

asio::awaitable<void> MpsControls::quit() {
  for (const auto& [id, control] : controls_) co_await control->quit();
}

}  // namespace sluice::node
