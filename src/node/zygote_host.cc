#include "node/zygote_host.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "process/log_folder.h"
#include "process/process_identity.h"
#include "wire/http/await.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

using wire::kAwait;
constexpr int kZygoteSocket = 3;
constexpr Nanos kRestartPause = Seconds(1);

Error system_error(const std::string& what) {
  return {ErrorKind::kInternal, what + ": " + std::strerror(errno)};
}

// After fork() in a program with threads: system calls alone.
[[noreturn]] void become_zygote(const char* path, int socket, int log, int null,
                                const cpu_set_t& cores) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();  // a terminal's Ctrl-C must not reach us
  dup2(null, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  if (socket == kZygoteSocket)
    fcntl(socket, F_SETFD, 0);
  else
    dup2(socket, kZygoteSocket);
  setpriority(PRIO_PROCESS, 0, 0);  // the daemon's priority is not for models
  if (CPU_COUNT(&cores) > 0) sched_setaffinity(0, sizeof cores, &cores);
  execl(path, path, "zygote", "--control-fd", "3", nullptr);
  _exit(127);
}

// Returns the identity of a file beyond its name; empty with errno on failure.
std::string version_of(const std::string& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return "";
  return std::to_string(s.st_ino) + ' ' + std::to_string(s.st_size) + ' ' +
         std::to_string(s.st_mtim.tv_sec) + '.' + std::to_string(s.st_mtim.tv_nsec);
}

// Returns the identity of a model: under an old name, it changes with a new file, or a new
// description.
Result<std::string> key_of(const ModelSpec& model) {
  if (model.path.size() >= sizeof(wire::StartTemplate::model_path))
    return Error{ErrorKind::kInvalid, "model.path: is longer than 4095 bytes"};
  const std::string file = version_of(model.path);
  if (file.empty())
    return Error{ErrorKind::kInvalid, "model.path: " + model.path + ": " + std::strerror(errno)};
  const std::filesystem::path description =
      std::filesystem::path(model.path).replace_extension(".json");
  return model.path + '\n' + file + '\n' + version_of(description);
}

}  // namespace

struct ZygoteHost::Process {
  pid_t pid = 0;
  Fd pidfd;
  Channel channel;
};

ZygoteHost::ZygoteHost(asio::io_context& io, RuntimeSettings settings, UidPool* uids)
    : io_(io),
      settings_(std::move(settings)),
      templates_(io, uids, settings_.max_templates, settings_.answer_patience) {
  if (settings_.weights > 0)
    weights_.emplace(host_memory(),
                     StoreServerSettings{.capacity = static_cast<uint64_t>(settings_.weights)});
}
ZygoteHost::~ZygoteHost() = default;

pid_t ZygoteHost::zygote_pid() const {
  return zygote_ ? zygote_->pid : 0;
}

Result<void> ZygoteHost::start() {
  if (zygote_) return {};
  if (access(settings_.path.c_str(), X_OK) != 0)
    return Error{ErrorKind::kNotFound, "runtime: " + settings_.path + ": " + std::strerror(errno)};
  SLUICE_ASSIGN(pair, make_socket_pair());
  const Fd log = open_log(settings_.log);
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : settings_.cores) CPU_SET(core, &cores);

  const pid_t pid = fork();
  if (pid < 0) return system_error("fork");
  if (pid == 0)
    become_zygote(settings_.path.c_str(), pair.theirs.get(), log.get(), null.get(), cores);
  zygote_ = std::make_shared<Process>();
  zygote_->pid = pid;
  zygote_->pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  zygote_->channel = Channel(io_, std::move(pair.ours));
  log::info("zygote {} started", pid);
  asio::co_spawn(io_, mind(zygote_), asio::detached);
  return {};
}

// Waits for the zygote's end and starts another. Templates live on, with sockets of their own.
asio::awaitable<void> ZygoteHost::mind(std::shared_ptr<Process> zygote) {
  const auto born = std::chrono::steady_clock::now();
  co_await wait_for_end(io_, zygote->pidfd.get());
  if (zygote_ != zygote) co_return;
  log::warn("zygote {} ended: {}; see {}", zygote->pid, how_it_ended(zygote->pidfd.get()),
            settings_.log);
  zygote_.reset();
  if (std::chrono::steady_clock::now() - born < kRestartPause) {
    asio::steady_timer pause(io_, kRestartPause);
    co_await pause.async_wait(kAwait);
  }
  if (const Result<void> again = start(); !again.ok()) log::error("{}", again.error().message);
}

// Returns a template's connection, with its model as the owner: no instance reaches another model's
// weights by it. Without one it keeps its weights to itself.
Fd ZygoteHost::store_connection(const std::string& model) {
  if (!weights_) return Fd();
  Result<SocketPair> pair = make_socket_pair();
  if (!pair.ok() || !weights_->adopt(std::move(pair->ours), model).ok()) return Fd();
  return std::move(pair->theirs);
}

asio::awaitable<Result<void>> ZygoteHost::load(std::shared_ptr<Template> t, std::string path,
                                               int warm_batch) {
  t->end();
  if (const Result<void> started = start(); !started.ok()) co_return started;
  if (const Result<void> taken = t->take_uid(); !taken.ok()) co_return taken;
  Result<SocketPair> pair = make_socket_pair();
  if (!pair.ok()) co_return pair.error();
  wire::StartTemplate message{.warm_batch = static_cast<uint32_t>(warm_batch), .uid = t->uid};
  wire::set_text(message.model_path, path);
  t->channel = Channel(io_, std::move(pair->ours));
  const Fd weights = store_connection(t->key);
  std::vector<int> fds{pair->theirs.get()};
  if (weights.valid()) fds.push_back(weights.get());
  if (const Result<void> sent = zygote_->channel.send(message, fds); !sent.ok()) co_return sent;
  SLUICE_STEP("template: asked for");
  pair->theirs.reset();

  const auto zygote = zygote_;
  Result<wire::Packet> packet = co_await zygote->channel.receive(settings_.answer_patience);
  const Result<wire::Started> started = answer_as<wire::Started>(packet, 1);
  if (!started.ok()) {
    // A zygote that does not answer is useless: mind() starts another.
    if (started.error().kind == ErrorKind::kTimeout)
      syscall(SYS_pidfd_send_signal, zygote->pidfd.get(), SIGKILL, nullptr, 0);
    co_return within("zygote", started.error());
  }
  t->pid = started->pid;
  t->pidfd = std::move(packet->fds[0]);
  packet = co_await t->channel.receive(settings_.template_patience);
  Result<wire::Ready> ready = answer_as<wire::Ready>(packet);
  if (!ready.ok() && ready.error().kind == ErrorKind::kTimeout)
    ready = Error{ErrorKind::kTimeout,
                  "takes longer than " + std::to_string(settings_.template_patience / Seconds(1)) +
                      " s, the limit for reading it and running it once"};
  if (!ready.ok()) {
    const bool named = ready.error().message.find(path) != std::string::npos;  // by the template
    co_return named ? ready.error() : within("model " + path, ready.error());
  }
  log::info("template {} of {} warm after {:.0f} ms", started->pid, path,
            static_cast<double>(ready->load_ns) / 1e6);
  co_return Result<void>();
}

asio::awaitable<Result<Forked>> ZygoteHost::fork_instance(const ModelSpec& model, int warm_batch,
                                                          const wire::StartInstance& what,
                                                          std::span<const int, 3> fds) {
  Result<std::string> key = key_of(model);
  if (!key.ok()) co_return key.error();
  Templates::Load make = [&](std::shared_ptr<Template> t) {
    return load(std::move(t), model.path, warm_batch);
  };
  Templates::Ask ask = [&](Channel& channel) { return channel.send(what, fds); };
  co_return co_await templates_.fork_instance(std::move(*key), std::move(make), std::move(ask));
}

}  // namespace sluice::node
