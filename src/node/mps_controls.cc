#include "node/mps_controls.h"

#include <unistd.h>

#include <filesystem>

#include "base/log.h"

namespace sluice::node {
MpsControls::MpsControls(asio::io_context& io, const Clock& clock, const std::string& program,
                         std::string absent, uid_t user, const DataPaths& paths,
                         const std::vector<LocalDevice>& devices,
                         const std::function<void()>& changed)
    : absent_(std::move(absent)), user_(user) {
  for (const auto& [d, cores] : devices) {
    if (d.kind != DeviceKind::kCuda || !d.mps || program.empty()) continue;
    const MpsPlace place{.program = program,
                         .gpu = d.uuid,
                         .pipes = std::filesystem::weakly_canonical(paths.mps_pipes(d.id)),
                         // DATA may lie where its user has no way to it.
                         .logs = std::filesystem::weakly_canonical(
                             user != 0 ? paths.mps_pipes(d.id) + ".log" : paths.mps_logs(d.id)),
                         .output = std::filesystem::absolute(paths.mps_output(d.id)),
                         .user = user};
    controls_[d.id] = std::make_unique<MpsControl>(io, clock, place, changed);
    controls_[d.id]->start();
  }
}

std::string MpsControls::describe(const Device& gpu) const {
  if (const auto found = controls_.find(gpu.id); found != controls_.end())
    return found->second->describe();
  return "off: " + (absent_.empty() ? "it cannot confine a client's SMs" : absent_);
}

std::string MpsControls::why_not(const Device& gpu, uid_t user) const {
  const auto found = controls_.find(gpu.id);
  if (found == controls_.end() || !found->second->ready()) return describe(gpu);
  if (user != (user_ != 0 ? user_ : geteuid())) return "its server has clients of one user alone";
  return "";
}

Result<std::optional<std::string>> MpsControls::pipes_for(const Device& gpu, const Slice& slice,
                                                          uid_t user) const {
  const std::string why = why_not(gpu, user);
  if (why.empty()) return std::optional(controls_.at(gpu.id)->place().pipes);
  if (slice.sm == kWhole) return std::optional<std::string>();
  return Error{
      controls_.contains(gpu.id) ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
      "slice.sm: " + gpu.id + " has parts of its SMs for clients of MPS alone (" + why + ")"};
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
