#include "node/python_launcher.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "base/system_error.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

// Returns what the fork is to become, as wire::StartProgram says. The template, which has the
// descriptor for a moment, cannot change it.
Result<Fd> sealed_plan(const ProgramStart& start) {
  std::string text = start.folder + '\0' + std::to_string(start.words.size() - 1) + '\0';
  for (auto word = start.words.begin() + 1; word != start.words.end(); ++word) text += *word + '\0';
  for (const std::string& variable : start.variables) text += variable + '\0';
  Fd plan(memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!plan.valid()) return system_error("memfd_create");
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(plan.get(), text.data() + at, text.size() - at);
    if (written < 0) return system_error("a start's plan");
    at += static_cast<size_t>(written);
  }
  constexpr int kForGood = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  if (fcntl(plan.get(), F_ADD_SEALS, kForGood) != 0) return system_error("a start's plan");
  return plan;
}

}  // namespace

PythonLauncher::PythonLauncher(asio::io_context& io, const Clock& clock, EnvironmentOf environment,
                               EnvironmentOf of_template, Nanos ready_patience,
                               PythonTemplates& templates)
    : ExecLauncher(io, clock, std::move(environment), ready_patience),
      of_template_(std::move(of_template)),
      templates_(templates) {}

asio::awaitable<Result<Newborn>> PythonLauncher::bear(const InstanceRecord& r, size_t part) {
  const Result<ProgramStart> start = plan(r, part);
  if (!start.ok()) co_return start.error();
  const Result<Fd> sealed = sealed_plan(*start);
  if (!sealed.ok()) co_return sealed.error();
  Result<Variables> variables = of_template_(r, part);
  if (!variables.ok()) co_return variables.error();
  Result<SocketPair> control = make_socket_pair();
  if (!control.ok()) co_return control.error();

  const PythonTemplate which{.function = to_string(r.instance.function),
                             .interpreter = start->words[0],
                             .imports = std::get<ExecOfProgram>(r.birth).imports,
                             .variables = std::move(*variables),
                             .uid = r.uid};
  const std::array fds{sealed->get(), control->theirs.get(), start->log.get()};
  Result<Forked> born = co_await templates_.fork_instance(which, fds);
  if (!born.ok()) co_return born.error();
  SLUICE_STEP("bear: born");
  const auto process = identity_of(born->process.pid);
  if (!process)
    co_return Error{ErrorKind::kUnavailable,
                    "died before its first line: " + how_it_ended(born->process.pidfd.get())};
  co_return Newborn{*process, std::move(born->process.pidfd),
                    Channel(io_, std::move(control->ours)), r.uid == 0 ? born->uid : 0};
}

}  // namespace sluice::node
