// **coldstart**: from the action to start an instance to the last byte of its first ResNet-50
// answer: forked from a warm template by the node daemon (reserved, recorded, in its cgroup, with
// its pages), against the same runtime executed plainly. Interleaved, one core each.
//
//   bench_coldstart [--n N] [--models DIR] [--sluice PATH] [--runtime PATH] [--json FILE]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
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

// The first answer of whoever will listen there; asked again until somebody does.
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

class Node {
 public:
  explicit Node(const Settings& s) : settings_(s), data_(s.folder + "/data") {
    // So many that each has one core, as the reference has one thread.
    const unsigned devices = std::max(1u, std::thread::hardware_concurrency() * 3 / 4);
    pid_ = run({s.sluice, "node", "--data", data_, "--runtime", s.runtime, "--devices",
                std::to_string(devices)},
               s.folder + "/node.log");
  }
  ~Node() { end(pid_); }

  Result<nlohmann::json> call(verb method, const std::string& target,
                              const nlohmann::json& body = nullptr) {
    return client_.json(method, target, body);
  }

  Result<void> wait_until_up() {
    const Time give_up = kClock.now() + Seconds(30);
    while (!call(verb::get, "/v1/state").ok()) {
      if (kClock.now() > give_up)
        return Error{ErrorKind::kTimeout, "the node daemon: see node.log"};
      ::usleep(10'000);
    }
    return {};
  }

  Result<Start> start() {
    const std::string id = "cold-" + std::to_string(++started_);
    const nlohmann::json slice{{"sm", 1000}, {"request", 1000}, {"limit", 1000}};
    const nlohmann::json request{{"id", id},
                                 {"function", "default/resnet50"},
                                 {"device", "cpu0"},
                                 {"slice", slice},
                                 {"model", {{"path", settings_.model}}}};
    const Time begin = kClock.now();
    SLUICE_ASSIGN(accepted, call(verb::post, "/v1/instances", request));
    Result<std::string> answer = first_answer(accepted["socket"]);
    const double ms = millis(kClock.now() - begin);
    SLUICE_TRY(stop(id));
    if (!answer.ok()) return answer.error();
    return Start{ms, std::move(*answer)};
  }

 private:
  Result<void> stop(const std::string& id) {
    SLUICE_TRY(call(verb::delete_, "/v1/instances/" + id, {{"drain_ms", 1000}}));
    for (uint64_t seen = 0;;) {
      SLUICE_ASSIGN(state, call(verb::get, "/v1/state?wait_ms=5000&after=" + std::to_string(seen)));
      seen = state["version"];
      for (const nlohmann::json& i : state["instances"])
        if (i["id"] == id && i["state"] == "gone") return {};
    }
  }

  const Settings& settings_;
  const std::string data_;
  wire::HttpClient client_{{.path = data_ + "/run/node.sock"}, Seconds(60)};
  pid_t pid_ = 0;
  int started_ = 0;
};

// The part of a file that is in the page cache.
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
  Node node(s);
  SLUICE_TRY(node.wait_until_up());
  SLUICE_ASSIGN(first, node.start());  // loads the template
  std::vector<double> forked, executed;
  for (int i = 0; i < s.runs; ++i) {
    SLUICE_ASSIGN(warm, node.start());
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
  Settings s{.sluice = here / "sluice",
             .runtime = here / "sluice-runtime",
             .model = models_directory(argc, argv) + "/resnet50.pt",
             .runs = int_argument(argc, argv, "--n", 10)};
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::string_view(argv[i]) == "--sluice") s.sluice = argv[i + 1];
    if (std::string_view(argv[i]) == "--runtime") s.runtime = argv[i + 1];
  }
  s.folder = (std::filesystem::temp_directory_path() / "sluice-coldstart-XXXXXX").string();
  SLUICE_CHECK(::mkdtemp(s.folder.data()) != nullptr, "mkdtemp");
  const auto outcome = bench(report, s);
  std::filesystem::remove_all(s.folder);
  if (!outcome.ok()) report.fail(outcome.error().message);
  return report.finish();
}
