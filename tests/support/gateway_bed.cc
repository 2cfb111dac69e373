#include "tests/support/gateway_bed.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "tests/support/open_load.h"
#include "wire/http/http.h"

namespace sluice::bench {
namespace {

using wire::http::verb;
namespace asio = wire::asio;

// One request after the other: a second one waits for the first.
struct Instance {
  Nanos service;
  std::chrono::steady_clock::time_point free_at{};

  asio::awaitable<wire::HttpResponse> answer(wire::HttpRequest request) {
    free_at = std::max(free_at, std::chrono::steady_clock::now()) + service;
    asio::steady_timer done(co_await asio::this_coro::executor, free_at);
    co_await done.async_wait(asio::use_awaitable);
    co_return wire::json_response({{"sum", checksum(request.body())}});
  }
};

rlimit descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}
const rlimit kAtFirst = descriptors();

}  // namespace

int raise_descriptors() {
  constexpr rlim_t kWanted = 100'000;
  const rlimit more{.rlim_cur = kWanted, .rlim_max = std::max(kWanted, kAtFirst.rlim_max)};
  const rlimit all{.rlim_cur = kAtFirst.rlim_max, .rlim_max = kAtFirst.rlim_max};
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0) ::setrlimit(RLIMIT_NOFILE, &all);
  return static_cast<int>(descriptors().rlim_cur);
}

int descriptors_of_programs() {
  return static_cast<int>(kAtFirst.rlim_cur);
}

pid_t start_program(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  SLUICE_CHECK(pid >= 0, "fork");
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setrlimit(RLIMIT_NOFILE, &kAtFirst);
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

void end_program(pid_t pid) {
  if (pid <= 0) return;
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
}

double peak_rss_mib(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::atof(line.c_str() + 6) / 1024;
  return 0;
}

Nanos cpu_time(pid_t pid) {
  clockid_t clock;
  timespec t{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &t) != 0) return Nanos(0);
  return Seconds(t.tv_sec) + Nanos(t.tv_nsec);
}

std::string beside_us(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

GatewayBed::GatewayBed(std::vector<std::string> program, Nanos service) : service_(service) {
  char folder[] = "/tmp/sluice-bed-XXXXXX";
  SLUICE_CHECK(::mkdtemp(folder) != nullptr, "no folder under /tmp");
  folder_ = folder;
  serve_instances();
  Fd listening = std::move(*wire::listen_on({.host = "127.0.0.1"}));
  port_ = wire::bound_to(listening)->port;
  ::fcntl(listening.get(), F_SETFD, 0);  // the gateway inherits it
  program.insert(program.end(), {"--listen-fd", std::to_string(listening.get()), "--admin",
                                 folder_ + "/admin.sock"});
  gateway_ = start_program(program, log());
}

GatewayBed::~GatewayBed() {
  ::kill(gateway_, SIGKILL);  // its open requests are no longer wanted
  ::waitpid(gateway_, nullptr, 0);
  ::kill(instances_, SIGKILL);
  ::waitpid(instances_, nullptr, 0);
  std::filesystem::remove_all(folder_);
}

void GatewayBed::serve_instances() {
  instances_ = ::fork();
  SLUICE_CHECK(instances_ >= 0, "fork");
  if (instances_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  asio::io_context io{1};
  Instance instances[2]{{service_}, {service_}};
  const wire::HttpLimits patient{.idle = std::chrono::hours(1), .request = std::chrono::hours(1)};
  std::vector<std::unique_ptr<wire::HttpServer>> servers;
  for (size_t i = 0; i < 2; ++i)
    servers.push_back(std::make_unique<wire::HttpServer>(
        io, std::move(*wire::listen_on({.path = folder_ + "/" + std::to_string(i)})),
        [&instance = instances[i]](wire::HttpRequest r) { return instance.answer(std::move(r)); },
        patient));
  io.run();
  ::_exit(0);
}

Result<void> GatewayBed::ready() {
  nlohmann::json instances = nlohmann::json::array();
  for (const char* name : {"0", "1"})
    instances.push_back({{"id", name},
                         {"revision", 1},
                         {"socket", folder_ + "/" + name},
                         {"credit", 1},
                         {"capability", 1 / seconds(service_)}});
  const nlohmann::json function{{"name", "simple"},
                                {"slo_ms", millis(kObjective)},
                                {"revisions", {{{"number", 1}, {"percent", 100}}}},
                                {"instances", instances}};
  const nlohmann::json table{{"version", 1}, {"functions", {function}}};
  const SteadyClock clock;
  Result<nlohmann::json> answer = Error{ErrorKind::kTimeout, "never asked"};
  for (const Time end = clock.now() + Seconds(20); clock.now() < end; ::usleep(10'000)) {
    answer =
        wire::HttpClient({.path = folder_ + "/admin.sock"}).json(verb::put, "/v1/routes", table);
    if (answer.ok()) return {};
  }
  return within("the gateway does not come up", answer.error());
}

Result<uint64_t> GatewayBed::inferences() const {
  SLUICE_ASSIGN(stats,
                wire::HttpClient({.path = folder_ + "/admin.sock"}).json(verb::get, "/v1/stats"));
  for (const nlohmann::json& f : stats["functions"]) return f.value("requests", uint64_t{0});
  return Error{ErrorKind::kNotFound, "the gateway knows no function"};
}

}  // namespace sluice::bench
