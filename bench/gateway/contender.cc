#include "bench/gateway/contender.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace sluice::bench {
namespace {

std::vector<pid_t> with_children(pid_t pid) {
  std::vector<pid_t> all{pid};
  const std::string task = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid);
  std::ifstream in(task + "/children");
  for (pid_t child; in >> child;) all.push_back(child);
  return all;
}

}  // namespace

Process::Process(const std::vector<std::string>& command, const std::string& cores,
                 const std::string& log) {
  std::vector<std::string> words{"taskset", "-c", cores};
  words.insert(words.end(), command.begin(), command.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  SLUICE_CHECK(pid_ >= 0, "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // or a leftover proxy slows the next run
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    ::dup2(out, 1);
    ::dup2(out, 2);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Process::~Process() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

bool Process::running() const {
  return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0;
}

Nanos Process::cpu() const {
  Nanos sum{0};
  for (const pid_t pid : with_children(pid_)) {
    clockid_t clock;
    timespec t{};
    if (::clock_getcpuclockid(pid, &clock) == 0 && ::clock_gettime(clock, &t) == 0)
      sum += Seconds(t.tv_sec) + Nanos(t.tv_nsec);
  }
  return sum;
}

std::string filled_in(const std::string& file,
                      const std::vector<std::pair<std::string, std::string>>& values) {
  std::ifstream in(file);
  SLUICE_CHECK(in.good(), "a configuration file of this benchmark is missing");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  for (const auto& [name, value] : values)
    for (size_t at; (at = text.find("@" + name + "@")) != text.npos;)
      text.replace(at, name.size() + 2, value);
  return text;
}

int free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof at;
  SLUICE_CHECK(::bind(fd, reinterpret_cast<sockaddr*>(&at), size) == 0, "no free port");
  SLUICE_CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) == 0, "no free port");
  ::close(fd);
  return ntohs(at.sin_port);
}

LoadResult run_wrk(const std::string& script, const std::string& url, const std::string& cores,
                   int connections, int body_bytes, int seconds) {
  const std::string command = "BENCH_BODY=" + std::to_string(body_bytes) + " taskset -c " + cores +
                              " wrk -t1 -c" + std::to_string(connections) + " -d" +
                              std::to_string(seconds) + "s -s '" + script + "' " + url;
  FILE* out = ::popen(command.c_str(), "r");
  SLUICE_CHECK(out != nullptr, "popen");
  LoadResult result;
  char line[512];
  while (std::fgets(line, sizeof line, out) != nullptr) {
    unsigned long requests, errors;
    double duration_us;
    if (std::sscanf(line, "RESULT %lu %lf %lu %lf %lf", &requests, &duration_us, &errors,
                    &result.p50_us, &result.p99_us) != 5)
      continue;
    result.requests = requests;
    result.errors = errors;
    result.requests_per_second = static_cast<double>(requests) / duration_us * 1e6;
  }
  ::pclose(out);
  return result;
}

}  // namespace sluice::bench
