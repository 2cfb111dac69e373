#include "cli/quickstart_platform.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/system_error.h"
#include "cli/supervisor.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

constexpr const char* kLog = "/up.log";  // identifies a folder of ours

// Empties the folder: only if an earlier play made it, and no platform runs there.
Result<void> begin_anew(const std::string& data) {
  namespace fs = std::filesystem;
  std::error_code fault;
  if (fs::exists(data, fault) && !fs::is_empty(data, fault) && !fs::exists(data + kLog, fault))
    return Error{ErrorKind::kConflict,
                 data + ": is not of quickstart's making, which would empty it; name another"};
  if (fs::exists(data + "/up.lock", fault)) {
    SLUICE_ASSIGN(holder, Supervisor::holder(data));
    if (holder)
      return Error{ErrorKind::kConflict, "a platform runs on " + data + "; end it first: sluice " +
                                             "--data " + data + " down"};
  }
  fs::remove_all(data, fault);
  if (!fault) fs::create_directories(data, fault);
  if (fault) return system_error(data, fault.value());
  return {};
}

}  // namespace

Result<QuickstartPlatform> QuickstartPlatform::start(const Session& session,
                                                     const std::string& policy,
                                                     const std::vector<std::string>& flags) {
  SLUICE_TRY(begin_anew(session.data));
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> words{self,   "--data",   session.data,  "up",    "--policy",
                                 policy, "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0"};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const std::string log = session.data + kLog;
  QuickstartPlatform platform(session.data);
  platform.pid_ = ::fork();
  if (platform.pid_ == 0) {
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  return platform;
}

void QuickstartPlatform::stop() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

bool QuickstartPlatform::lives() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = 0;
  return pid_ > 0;
}

Result<size_t> QuickstartPlatform::devices(const Session& session) {
  size_t devices = 0;
  SLUICE_TRY(wait_for(
      [&]() -> Result<bool> {
        if (!lives()) return Error{ErrorKind::kInternal, "the platform ended; see " + data_ + kLog};
        const auto list = session.api(verb::get, "/v1/devices");
        const auto is_cpu = [](const json& d) { return d["kind"] == "cpu"; };  // as models need
        if (list.ok()) devices = static_cast<size_t>(std::ranges::count_if(*list, is_cpu));
        const auto status = session.api(verb::get, "/v1/status");
        return devices > 0 && status.ok() && (*status)["gateway"].get<bool>();
      },
      Seconds(60), "the platform"));
  return devices;
}

Result<void> wait_for(const std::function<Result<bool>()>& done, Nanos patience,
                      const std::string& what) {
  const SteadyClock clock;
  const Time end = clock.now() + patience;
  while (clock.now() < end) {
    SLUICE_ASSIGN(is, done());
    if (is) return {};
    std::this_thread::sleep_for(Millis(100));
  }
  return Error{ErrorKind::kTimeout,
               what + ": not within " + std::to_string(patience.count() / 1'000'000'000) + " s"};
}

}  // namespace sluice::cli
