#include "node/python_templates.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "base/printable.h"
#include "base/readable.h"
#include "node/program_start.h"
#include "process/process_identity.h"

namespace sluice::node {
namespace {

constexpr char kField[] = "server.imports";

std::string key_of(const PythonTemplate& which) {
  std::string key = which.function + '\0' + which.interpreter + '\0' + std::to_string(which.uid);
  for (const std::string& name : which.imports) key += '\0' + name;
  for (const std::string& word : as_words(which.variables)) key += '\0' + word;
  return key;
}

cpu_set_t set_of(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return set;
}

// It is the daemon's child. `pidfd`: a copy, as its template may end before it does.
asio::awaitable<void> reap(asio::io_context& io, Fd pidfd, std::string name) {
  co_await wait_for_end(io, pidfd.get());
  log::info("{} ended: {}", name, how_it_ended(pidfd.get()));
}

}  // namespace

PythonTemplates::PythonTemplates(asio::io_context& io, PythonTemplateSettings settings,
                                 UidPool* uids)
    : io_(io),
      settings_(std::move(settings)),
      templates_(io, uids, settings_.max_templates, settings_.answer_patience) {}

// Its output is not for the platform's logs, and no instance's.
Result<void> PythonTemplates::start(Template& t, const PythonTemplate& which) {
  if (access(settings_.script.c_str(), R_OK) != 0)
    return Error{ErrorKind::kInternal,
                 settings_.script + ": missing: without it " + kField + " cannot be imported"};
  if (which.uid != 0) t.uid = which.uid;
  SLUICE_TRY(t.take_uid());
  SLUICE_ASSIGN(pair, make_socket_pair());
  ProgramStart start{.words = {which.interpreter, "-I", "-u", settings_.script},
                     .variables = as_words(which.variables),
                     .uid = t.uid,
                     .handed = std::move(pair.theirs),
                     .log = Fd(open("/dev/null", O_WRONLY | O_CLOEXEC))};
  start.words.insert(start.words.end(), which.imports.begin(), which.imports.end());
  SLUICE_ASSIGN(born, fork_waiting(io_, std::move(start)));
  t.pid = born.process.pid;
  t.pidfd = std::move(born.pidfd);
  t.channel = Channel(io_, std::move(pair.ours));
  if (!settings_.cores.empty()) {
    const cpu_set_t cores = set_of(settings_.cores);
    (void)sched_setaffinity(t.pid, sizeof cores, &cores);
  }
  return born.control.send(wire::Go{});
}

asio::awaitable<Result<void>> PythonTemplates::load(std::shared_ptr<Template> t,
                                                    const PythonTemplate& which) {
  t->end();
  if (const Result<void> started = start(*t, which); !started.ok()) co_return started;
  const std::string name = "template " + std::to_string(t->pid) + " of " + which.function;
  Result<wire::Packet> packet = co_await t->channel.receive(settings_.template_patience);
  Result<wire::Ready> ready = answer_as<wire::Ready>(packet);
  if (ready.ok()) {
    // An instance has the cores of its slice.
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) == 0)
      (void)sched_setaffinity(t->pid, sizeof all, &all);
    log::info("{} warm after {:.0f} ms", name, static_cast<double>(ready->load_ns) / 1e6);
    asio::co_spawn(io_, reap(io_, Fd(fcntl(t->pidfd.get(), F_DUPFD_CLOEXEC, 0)), name),
                   asio::detached);
    co_return Result<void>();
  }
  Error error = ready.error();
  if (error.kind == ErrorKind::kTimeout)
    error.message = "takes longer than " +
                    std::to_string(settings_.template_patience / Seconds(1)) +
                    " s, the limit for importing modules";
  t->kill();
  co_await wait_for_end(io_, t->pidfd.get());
  const std::string how = how_it_ended(t->pidfd.get());
  if (error.kind == ErrorKind::kUnavailable) error.message = "their template ended: " + how;
  co_return within(kField, Error{error.kind, printable(error.message)});
}

asio::awaitable<Result<Forked>> PythonTemplates::fork_instance(const PythonTemplate& which,
                                                               std::span<const int, 3> fds) {
  Templates::Load make = [&](std::shared_ptr<Template> t) { return load(std::move(t), which); };
  Templates::Ask ask = [&](Channel& channel) { return channel.send(wire::StartProgram{}, fds); };
  co_return co_await templates_.fork_instance(key_of(which), std::move(make), std::move(ask));
}

}  // namespace sluice::node
