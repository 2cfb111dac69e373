#include "node/mps_controls.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/log.h"

namespace sluice::node {
namespace {

// A server takes clients of only one user; others would wait until those are gone.
bool is_ours(pid_t process) {
  struct stat s {};
  return stat(("/proc/" + std::to_string(process)).c_str(), &s) == 0 && s.st_uid == geteuid();
}

}  // namespace

MpsControls::MpsControls(asio::io_context& io, const Clock& clock, const std::string& program,
                         std::string absent, const DataPaths& paths,
                         const std::vector<LocalDevice>& devices,
                         const std::function<void()>& changed)
    : absent_(std::move(absent)) {
  for (const auto& [d, cores] : devices) {
    if (d.kind != DeviceKind::kCuda || !d.mps || program.empty()) continue;
    const MpsPlace place{.program = program,
                         .gpu = d.uuid,
                         .pipes = std::filesystem::absolute(paths.mps_pipes(d.id)),
                         .logs = std::filesystem::absolute(paths.mps_logs(d.id)),
                         .output = std::filesystem::absolute(paths.mps_output(d.id))};
    controls_[d.id] = std::make_unique<MpsControl>(io, clock, place, changed);
    controls_[d.id]->start();
  }
}

std::string MpsControls::describe(const Device& gpu) const {
  if (const auto found = controls_.find(gpu.id); found != controls_.end())
    return found->second->describe();
  return "off: " + (absent_.empty() ? "it cannot confine a client's SMs" : absent_);
}

std::string MpsControls::why_not(const Device& gpu, pid_t process) const {
  const auto found = controls_.find(gpu.id);
  if (found == controls_.end() || !found->second->ready()) return describe(gpu);
  if (!is_ours(process)) return "its server is for this user's processes alone";
  return "";
}

Result<std::optional<std::string>> MpsControls::pipes_for(const Device& gpu, const Slice& slice,
                                                          pid_t process) const {
  const std::string why = why_not(gpu, process);
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
