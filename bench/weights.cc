// **weights**: memory of four VGG-19 instances, forked from one warm template, against four
// processes of their own: the proportional set size (PSS) of all processes involved, after each has
// answered a request. On the shared side zygote and template count too.
//
//   bench_weights [--models DIR] [--runtime PATH] [--json FILE]
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/demo_models.h"
#include "bench/image_request.h"
#include "bench/report.h"
#include "store/server.h"
#include "wire/http/http.h"
#include "wire/zygote.h"

namespace sluice::bench {
namespace {

constexpr int kInstances = 4;

double pss_mib(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string key;
  double kib = 0;
  while (in >> key)
    if (key == "Pss:" && in >> kib) return kib / 1024;
  return 0;
}

// Runs the runtime's program with these arguments; `inherited` stays open in it.
pid_t run(const std::string& program, std::vector<std::string> arguments, int inherited = -1) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (inherited >= 0) ::fcntl(inherited, F_SETFD, 0);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

// Waits until a process listens there, for at most a minute.
Result<void> wait_for(const wire::Endpoint& at) {
  const SteadyClock clock;
  for (const Time end = clock.now() + Seconds(60); clock.now() < end; ::usleep(20'000)) {
    wire::HttpClient client(at, Seconds(1));
    if (client.call(wire::http::verb::get, "/v2/health/live").ok()) return {};
  }
  return Error{ErrorKind::kTimeout, to_string(at) + ": nobody listens"};
}

struct Memory {
  std::vector<double> instances;
  double others = 0;  // zygote and template
  std::string answer;
  double total() const {
    double sum = others;
    for (const double mib : instances) sum += mib;
    return sum;
  }
};

Result<void> ask_all(const std::vector<wire::Endpoint>& all, Memory& memory) {
  for (const wire::Endpoint& at : all) {
    wire::HttpClient client(at, Seconds(60));
    SLUICE_ASSIGN(answer, infer(client, "vgg19"));
    if (!memory.answer.empty() && memory.answer != answer)
      return Error{ErrorKind::kInternal, "instances answer differently"};
    memory.answer = answer;
  }
  return {};
}

Result<Memory> separate(const std::string& runtime, const std::string& model,
                        const std::string& folder) {
  Memory memory;
  std::vector<pid_t> pids;
  std::vector<wire::Endpoint> endpoints;
  for (int i = 0; i < kInstances; ++i) {
    endpoints.push_back({.path = folder + "/s" + std::to_string(i)});
    pids.push_back(
        run(runtime, {"serve", "--model", model, "--listen", to_string(endpoints.back())}));
    SLUICE_TRY(wait_for(endpoints.back()));
  }
  const Result<void> asked = ask_all(endpoints, memory);
  for (const pid_t pid : pids) memory.instances.push_back(pss_mib(pid));
  for (const pid_t pid : pids) ::kill(pid, SIGTERM);
  for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  if (!asked.ok()) return asked.error();
  return memory;
}

struct SocketPair {
  SocketPair() {
    int fds[2];
    SLUICE_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0, "socketpair");
    ours = Fd(fds[0]);
    theirs = Fd(fds[1]);
  }
  Fd ours, theirs;
};

template <class M>
Result<M> hear(const Fd& from) {
  SLUICE_ASSIGN(packet, wire::receive_packet(from.get()));
  if (const auto failed = wire::message_of<wire::Failed>(packet); failed.ok())
    return wire::error_of(*failed);
  return wire::message_of<M>(packet);
}

// The daemon's part, without daemon: a template of the model, and the store through which it
// shares.
struct Template {
  node::StoreServer store{node::host_memory(), {.capacity = uint64_t{4} << 30}};
  SocketPair zygote, model;
  pid_t zygote_pid = 0, pid = 0;
};

Result<void> start(Template& t, const std::string& runtime, const std::string& model) {
  t.zygote_pid = run(runtime, {"zygote", "--control-fd", std::to_string(t.zygote.theirs.get())},
                     t.zygote.theirs.get());
  t.zygote.theirs.reset();
  wire::StartTemplate message;
  wire::set_text(message.model_path, model);
  SocketPair weights;
  SLUICE_TRY(t.store.adopt(std::move(weights.ours), "templates"));
  const int fds[] = {t.model.theirs.get(), weights.theirs.get()};
  SLUICE_TRY(wire::send_message(t.zygote.ours.get(), message, fds));
  SLUICE_ASSIGN(started, hear<wire::Started>(t.zygote.ours));
  t.pid = started.pid;
  t.model.theirs.reset();
  SLUICE_ASSIGN(ready, hear<wire::Ready>(t.model.ours));
  (void)ready;
  return {};
}

Result<pid_t> start_instance(const Template& t, const wire::Endpoint& at, Fd& control) {
  SLUICE_ASSIGN(listening, wire::listen_on(at));
  SocketPair pair;
  wire::StartInstance message;
  wire::set_text(message.id, at.path.substr(at.path.size() - 2));
  wire::set_text(message.model_name, "vgg19");
  const int fds[] = {listening.get(), pair.theirs.get(), STDERR_FILENO};
  SLUICE_TRY(wire::send_message(t.model.ours.get(), message, fds));
  SLUICE_ASSIGN(started, hear<wire::Started>(t.model.ours));
  SLUICE_TRY(wire::send_message(pair.ours.get(), wire::Go{}));
  SLUICE_ASSIGN(ready, hear<wire::Ready>(pair.ours));
  (void)ready;
  control = std::move(pair.ours);
  return static_cast<pid_t>(started.pid);
}

Result<Memory> forked(const std::string& runtime, const std::string& model,
                      const std::string& folder) {
  Memory memory;
  Template t;
  SLUICE_TRY(start(t, runtime, model));
  std::vector<pid_t> pids;
  std::vector<wire::Endpoint> endpoints;
  std::vector<Fd> controls(kInstances);
  for (int i = 0; i < kInstances; ++i) {
    endpoints.push_back({.path = folder + "/f" + std::to_string(i)});
    SLUICE_ASSIGN(pid, start_instance(t, endpoints.back(), controls[static_cast<size_t>(i)]));
    pids.push_back(pid);
  }
  const Result<void> asked = ask_all(endpoints, memory);
  for (const pid_t pid : pids) memory.instances.push_back(pss_mib(pid));
  memory.others = pss_mib(t.zygote_pid) + pss_mib(t.pid);
  for (const Fd& control : controls) (void)wire::send_message(control.get(), wire::Drain{});
  t.model.ours.reset();
  t.zygote.ours.reset();
  ::waitpid(t.zygote_pid, nullptr, 0);
  if (!asked.ok()) return asked.error();
  return memory;
}

Result<void> bench(Report& report, const std::string& runtime, const std::string& model,
                   const std::string& folder) {
  SLUICE_ASSIGN(alone, separate(runtime, model, folder));
  SLUICE_ASSIGN(shared, forked(runtime, model, folder));
  if (alone.answer != shared.answer || alone.answer.empty())
    return Error{ErrorKind::kInternal, "forked instances answer differently"};
  if (summarise(alone.instances).min < 500)
    return Error{ErrorKind::kInternal, "the reference is smaller than VGG-19's weights"};
  const Samples each = summarise(shared.instances);
  report.add(Row("4 VGG-19 instances with zygote and template", shared.total(), "MiB")
                 .beside("4 processes", alone.total())
                 .ratio_at_most(0.45));
  report.add(Row("one more instance", each.p50, "MiB")
                 .beside("a process", summarise(alone.instances).p50)
                 .of(each));
  report.note("PSS; zygote and template take " + std::to_string(static_cast<int>(shared.others)) +
              " MiB of it");
  return {};
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("weights", argc, argv);
  const std::string runtime = text_argument(
      argc, argv, "--runtime",
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sluice-runtime");
  std::string folder = (std::filesystem::temp_directory_path() / "sluice-weights-XXXXXX").string();
  SLUICE_CHECK(::mkdtemp(folder.data()) != nullptr, "mkdtemp");
  const auto outcome = bench(report, runtime, models_directory(argc, argv) + "/vgg19.pt", folder);
  std::filesystem::remove_all(folder);
  if (!outcome.ok()) report.fail(outcome.error().message);
  return report.finish();
}
