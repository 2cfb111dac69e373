#include "control/local/local_ports.h"

#include <filesystem>
#include <utility>

#include "control/local/model_check.h"

namespace sluice::control {

LocalPorts::LocalPorts(const std::string& data, Store store, const Clock& clock, Servers servers)
    : store_(std::move(store)),
      clock_(clock),
      models_(data + "/models", check_model_file, std::filesystem::absolute(data) / "served",
              std::filesystem::absolute(data) / "secrets"),
      cluster_(data + "/run/node.sock", data + "/run/gateway.sock", Seconds(5), servers) {}

Result<std::unique_ptr<LocalPorts>> LocalPorts::open(const std::string& data,
                                                     const std::string& trainer, const Clock& clock,
                                                     Servers servers, CheckpointCopies copies) {
  SLUICE_ASSIGN(store, Store::open(data + "/control.db"));
  std::unique_ptr<LocalPorts> local(new LocalPorts(data, std::move(store), clock, servers));
  // Each server's term is higher than that of the one before it.
  SLUICE_ASSIGN(jobs, train::JobServer::open({.path = data + "/run/jobs.sock"}, unix_now(), clock));
  local->training_ = std::make_unique<LocalTraining>(
      LocalTrainingSettings{std::filesystem::absolute(data), trainer, std::move(copies)},
      std::move(jobs));
  return local;
}

}  // namespace sluice::control
