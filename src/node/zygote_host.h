// The zygote and its templates: the framework loaded once, each model loaded and warmed once, so
// that an instance is a fork (docs/design/processes.md). Starts the runtime, starts it again when
// it dies, keeps the templates that were used last. Templates share their weights over a model
// store, so that a template made anew reads what the instances of the old one still have.
//
// Belongs to one io_context with one thread, and must outlive its coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/function.h"
#include "node/channel.h"
#include "node/store_server.h"

namespace sluice::node {

struct RuntimeSettings {
  std::string path;                        // of sluice-runtime
  std::string log;                         // of the zygote and its templates
  std::vector<int> cores;                  // where they run; empty: anywhere
  size_t max_templates = 8;                // kept warm; the one unused for longest goes first
  Nanos template_patience = Seconds(300);  // for loading and warming a model
  Nanos answer_patience = Seconds(20);     // for a fork
  Bytes weights = 0;  // what templates may put into the model store; 0: nothing
};

// A process that waits for Go on its control socket.
struct Newborn {
  pid_t pid = 0;
  Fd pidfd;
};

class ZygoteHost {
 public:
  ZygoteHost(asio::io_context& io, RuntimeSettings settings);
  ~ZygoteHost();  // zygote and templates end; instances do not

  // Starts the zygote, so that it is warm when it is needed. An error: there is no such program.
  Result<void> start();

  // Forks an instance from the model's template, made first when there is none. `fds` are listening
  // socket, control socket, log. kInvalid: the model cannot be loaded; other kinds: the zygote, the
  // template or the machine failed.
  asio::awaitable<Result<Newborn>> fork_instance(const ModelSpec& model, int warm_batch,
                                                 const wire::StartInstance& what,
                                                 std::span<const int, 3> fds);

  pid_t zygote_pid() const;  // 0: there is none
  size_t templates() const { return templates_.size(); }

 private:
  struct Process;
  struct Template;

  asio::awaitable<void> mind(std::shared_ptr<Process> zygote);
  asio::awaitable<Result<std::shared_ptr<Template>>> template_of(const ModelSpec&, int warm_batch);
  asio::awaitable<Result<void>> load(std::shared_ptr<Template>, std::string path, int warm_batch);
  void forget(const std::shared_ptr<Template>&);
  void make_room();

  Fd store_connection(const std::string& model);

  asio::io_context& io_;
  const RuntimeSettings settings_;
  std::optional<StoreServer> weights_;
  std::shared_ptr<Process> zygote_;
  std::map<std::string, std::shared_ptr<Template>> templates_;  // by file, as it is now
  uint64_t uses_ = 0;
};

}  // namespace sluice::node
