// **coldstart**: from the decision to start an instance to the last byte of the first ResNet-50
// answer through the gateway, on a whole platform: decided, reserved, recorded, forked from a warm
// template, in its cgroup, with its pages, routed to. The reference is the same runtime executed
// plainly and asked directly. Interleaved, one core each.
//
//   bench_coldstart [--n N] [--models DIR] [--sluice PATH] [--runtime PATH] [--json FILE]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "bench/demo_models.h"
#include "bench/image_request.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

using wire::http::verb;

const SteadyClock kClock;

struct Settings {
  std::string sluice, runtime, model, folder;
  int runs = 10;
};

pid_t run(std::vector<std::string> words, const std::string& log) {
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

void end(pid_t pid) {
  ::kill(pid, SIGTERM);
  ::waitpid(pid, nullptr, 0);
}

// Returns the first answer of the server that will listen there; asks until one does.
Result<std::string> first_answer(const std::string& socket) {
  wire::HttpClient client({.path = socket}, Seconds(60));
  const Time give_up = kClock.now() + Seconds(60);
  for (;;) {
    Result<std::string> answer = infer(client, "resnet50");
    if (answer.ok() || answer.error().kind != ErrorKind::kUnavailable || kClock.now() > give_up)
      return answer;
    ::usleep(500);
  }
}

struct Start {
  double ms = 0;
  std::string answer;
};

Result<Start> plain_exec(const Settings& s) {
  const std::string socket = s.folder + "/plain.sock";
  std::filesystem::remove(socket);
  const Time begin = kClock.now();
  const pid_t pid = run(
      {s.runtime, "serve", "--model", s.model, "--name", "resnet50", "--listen", "unix:" + socket},
      s.folder + "/plain.log");
  Result<std::string> answer = first_answer(socket);
  const double ms = millis(kClock.now() - begin);
  end(pid);
  if (!answer.ok()) return answer.error();
  return Start{ms, std::move(*answer)};
}

// A whole platform with one function of a fixed slice: a device of its own.
class Platform {
 public:
  explicit Platform(const Settings& s) : data_(s.folder + "/data") {
    // Enough devices that each has one core, like the reference's one thread.
    const unsigned devices = std::max(1u, std::thread::hardware_concurrency() * 3 / 4);
    pid_ =
        run({s.sluice, "--data", data_, "up", "--policy", "fixed", "--listen", "127.0.0.1:0",
             "--api", "127.0.0.1:0", "--runtime", s.runtime, "--devices", std::to_string(devices)},
            s.folder + "/up.log");
  }
  ~Platform() { end(pid_); }

  Result<void> wait_until_up() {
    return until([&] {
      const auto status = api_.json(verb::get, "/v1/status");
      return status.ok() && status->value("gateway", false);
    });
  }

  // The model's template is not loaded yet.
  Result<Start> deploy(const std::string& model) {
    const std::string file =
        "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: resnet50}\n"
        "spec: {model: {path: " +
        model + "}, slo: {latency: 1s}, timeout: 60s}\n";
    SLUICE_ASSIGN(answer,
                  api_.call(verb::post, "/v1/functions?file=bench", file, "application/yaml"));
    if (answer.result_int() != 200) return Error{ErrorKind::kInternal, answer.body()};
    return first_after_start();
  }

  // Kills its only instance: the next request waits for another one.
  Result<Start> start_again() {
    SLUICE_ASSIGN(instances, api_.json(verb::get, "/v1/instances"));
    for (const nlohmann::json& i : instances)
      if (i["state"] == "ready") ::kill(i["pid"].get<pid_t>(), SIGKILL);
    return first_after_start();
  }

 private:
  // From the moment of the loop's decision to start to the last byte of the answer.
  Result<Start> first_after_start() {
    std::string address;
    std::ifstream(data_ + "/run/gateway.address") >> address;
    SLUICE_ASSIGN(at, wire::parse_endpoint(address));
    wire::HttpClient gateway(at, Seconds(60));
    SLUICE_ASSIGN(answer, infer(gateway, "resnet50"));
    const UnixMillis now = unix_now();
    SLUICE_ASSIGN(decisions, api_.json(verb::get, "/v1/decisions?limit=5"));
    for (const nlohmann::json& d : decisions)  // the newest first
      if (d["action"] == "start") {
        const UnixMillis decided = d["at"];
        if (decided <= last_start_) break;
        last_start_ = decided;
        return Start{static_cast<double>(now - decided), answer};
      }
    return Error{ErrorKind::kInternal, "answered without a start: it was no cold one"};
  }

  Result<void> until(const std::function<bool()>& done) {
    const Time give_up = kClock.now() + Seconds(30);
    while (!done()) {
      if (kClock.now() > give_up) return Error{ErrorKind::kTimeout, "the platform: see up.log"};
      ::usleep(10'000);
    }
    return {};
  }

  const std::string data_;
  wire::HttpClient api_{{.path = data_ + "/run/api.sock"}, Seconds(60)};
  pid_t pid_ = 0;
  UnixMillis last_start_ = 0;
};

// Returns the part of a file that is in the page cache.
double resident(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat s {};
  if (!fd.valid() || ::fstat(fd.get(), &s) != 0 || s.st_size == 0) return 0;
  const auto size = static_cast<size_t>(s.st_size);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  ::mincore(map, size, pages.data());
  ::munmap(map, size);
  double in = 0;
  for (const unsigned char page : pages) in += page & 1;
  return in / static_cast<double>(pages.size());
}

void note_page_cache(Report& report, const Settings& s) {
  const auto percent = [](const std::string& path) {
    return std::to_string(static_cast<int>(resident(path) * 100)) + " %";
  };
  std::string line =
      "in the page cache before the first run: " + percent(s.model) + " of the model";
  for (const char* library : {"/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13",
                              "/usr/lib/aarch64-linux-gnu/libtorch_cpu.so.1.13"})
    if (std::filesystem::exists(library)) line += ", " + percent(library) + " of libtorch";
  report.note(line);
}

Result<void> bench(Report& report, const Settings& s) {
  note_page_cache(report, s);
  Platform platform(s);
  SLUICE_TRY(platform.wait_until_up());
  SLUICE_ASSIGN(first, platform.deploy(s.model));
  std::vector<double> forked, executed;
  for (int i = 0; i < s.runs; ++i) {
    SLUICE_ASSIGN(warm, platform.start_again());
    SLUICE_ASSIGN(plain, plain_exec(s));
    if (warm.answer != first.answer || warm.answer.empty())
      return Error{ErrorKind::kInternal, "an instance answers differently from the one before"};
    if (plain.answer != warm.answer)
      return Error{ErrorKind::kInternal, "the reference answers differently"};
    forked.push_back(warm.ms);
    executed.push_back(plain.ms);
  }
  const Samples warm = summarise(forked), plain = summarise(executed);
  report.add(Row("start to first answer, warm template", warm.p50, "ms")
                 .beside("plain exec", plain.p50)
                 .of(warm)
                 .at_most(150));
  report.add(Row("plain exec to first answer", plain.p50, "ms")
                 .beside("warm template", warm.p50)
                 .of(plain)
                 .ratio_at_least(5));
  report.add(Row("start to first answer, template not loaded", first.ms, "ms"));
  return {};
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  Report report("coldstart", argc, argv);
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  Settings s{.sluice = text_argument(argc, argv, "--sluice", here / "sluice"),
             .runtime = text_argument(argc, argv, "--runtime", here / "sluice-runtime"),
             .model = models_directory(argc, argv) + "/resnet50.pt",
             .runs = int_argument(argc, argv, "--n", 10)};
  s.folder = (std::filesystem::temp_directory_path() / "sluice-coldstart-XXXXXX").string();
  SLUICE_CHECK(::mkdtemp(s.folder.data()) != nullptr, "mkdtemp");
  const auto outcome = bench(report, s);
  std::filesystem::remove_all(s.folder);
  if (!outcome.ok()) report.fail(outcome.error().message);
  return report.finish();
}
