// The zygote and its templates (templates.h): the framework loaded once, each model loaded and
// warmed once (docs/design/processes.md). Starts the runtime, restarts it when it dies. Templates
// share their weights over a model store, so that a new template reads what the old one's instances
// still have.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/function.h"
#include "node/templates.h"
#include "store/server.h"

namespace sluice::node {

struct RuntimeSettings {
  std::string path;                        // of sluice-runtime
  std::string log;                         // of the zygote and its templates
  std::vector<int> cores;                  // where they run; empty: anywhere
  size_t max_templates = 8;                // kept warm; the one unused for longest goes first
  Nanos template_patience = Seconds(300);  // for loading and warming a model
  Nanos answer_patience = Seconds(20);     // for a fork
  Bytes weights = 0;                       // that templates may put into the model store; 0: none
};

class ZygoteHost {
 public:
  // `uids`: nullptr without root. It outlives this.
  ZygoteHost(asio::io_context& io, RuntimeSettings settings, UidPool* uids);
  ~ZygoteHost();  // zygote and templates end; instances do not

  // Starts the zygote, so that it is warm when needed. Returns an error if there is no such
  // program.
  Result<void> start();

  // Forks an instance from the model's template, which it makes first if there is none. The
  // instance waits for Go on its control socket. `fds` are listening socket, control socket, log.
  // Returns kInvalid if the model cannot be loaded; other kinds mean that the zygote, the template
  // or the machine failed.
  asio::awaitable<Result<Forked>> fork_instance(const ModelSpec& model, int warm_batch,
                                                const wire::StartInstance& what,
                                                std::span<const int, 3> fds);

  pid_t zygote_pid() const;  // 0: none

 private:
  struct Process;

  asio::awaitable<void> mind(std::shared_ptr<Process> zygote);
  asio::awaitable<Result<void>> load(std::shared_ptr<Template>, std::string path, int warm_batch);
  Fd store_connection(const std::string& model);

  asio::io_context& io_;
  const RuntimeSettings settings_;
  std::optional<StoreServer> weights_;
  std::shared_ptr<Process> zygote_;
  Templates templates_;  // by file, in its current version
};

}  // namespace sluice::node
