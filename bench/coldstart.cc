// **coldstart**: from the decision to start an instance to the last byte of the first ResNet-50
// answer through the gateway, on a whole platform: decided, reserved, recorded, forked from a warm
// template, in its cgroup, with its pages, routed to. The reference is the same runtime executed
// plainly and asked directly. Interleaved, one core each.
//
// The same of examples/torch_server, a program in Python: a fork of a template that has imported
// torch, beside a function without `imports`, on the same platform.
//
//   bench_coldstart [--n N] [--models DIR] [--sluice PATH] [--runtime PATH] [--json FILE]
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/cold_platform.h"
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

// Returns the answer of the example to an image of zeros.
Result<std::string> ask_example(wire::HttpClient& client, const std::string& name) {
  const nlohmann::json body = {{"inputs",
                                {{{"name", "image"},
                                  {"datatype", "FP32"},
                                  {"shape", {1, 3, 64, 64}},
                                  {"data", std::vector<int>(size_t{3} * 64 * 64)}}}}};
  SLUICE_ASSIGN(answer, client.json(verb::post, "/v2/models/" + name + "/infer", body));
  if (!answer.contains("outputs")) return Error{ErrorKind::kInternal, answer.dump()};
  return answer["outputs"].dump();
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

Result<void> bench_model(Report& report, const Settings& s, ColdPlatform& platform) {
  const ColdPlatform::Ask ask = [](wire::HttpClient& gateway) {
    return infer(gateway, "resnet50");
  };
  SLUICE_ASSIGN(
      first,
      platform.deploy("resnet50",
                      "{model: {path: " + s.model + "}, slo: {latency: 1s}, timeout: 60s}", ask));
  std::vector<double> forked, executed;
  for (int i = 0; i < s.runs; ++i) {
    SLUICE_ASSIGN(warm, platform.start_again("resnet50", ask));
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
  return platform.remove("resnet50");
}

struct Starts {
  Start first;  // without a template
  Samples later;
};

// Starts examples/torch_server again and again. `imports`: a line of its file, or nothing.
Result<Starts> start_example(const Settings& s, ColdPlatform& platform,
                             const std::string& imports) {
  const std::string spec =
      "{server: {command: [/usr/bin/python3, server.py], readiness: /v2/health/ready, files: "
      "[" SLUICE_SOURCE "/examples/torch_server/server.py, " SLUICE_SOURCE
      "/python/sluice_serve.py]" +
      imports + "}, slo: {latency: 1s}, timeout: 60s}";
  const ColdPlatform::Ask ask = [](wire::HttpClient& gateway) {
    return ask_example(gateway, "example");
  };
  SLUICE_ASSIGN(first, platform.deploy("example", spec, ask));
  std::vector<double> ms;
  for (int i = 0; i < s.runs; ++i) {
    SLUICE_ASSIGN(again, platform.start_again("example", ask));
    if (again.answer != first.answer)
      return Error{ErrorKind::kInternal, "an instance of the example answers differently"};
    ms.push_back(again.ms);
  }
  SLUICE_TRY(platform.remove("example"));
  return Starts{std::move(first), summarise(std::move(ms))};
}

Result<void> bench_python(Report& report, const Settings& s, ColdPlatform& platform) {
  SLUICE_ASSIGN(plain, start_example(s, platform, ""));
  SLUICE_ASSIGN(warm, start_example(s, platform, ", imports: [torch]"));
  if (warm.first.answer != plain.first.answer)
    return Error{ErrorKind::kInternal, "the example answers differently with imports"};
  report.add(Row("torch_server: start to first answer, torch imported by the template",
                 warm.later.p50, "ms")
                 .beside("without imports", plain.later.p50)
                 .of(warm.later)
                 .at_most(300));
  report.add(Row("torch_server: start to first answer, without imports", plain.later.p50, "ms")
                 .beside("with imports", warm.later.p50)
                 .of(plain.later)
                 .ratio_at_least(5));
  report.add(Row("torch_server: start to first answer, no template yet", warm.first.ms, "ms"));
  return {};
}

Result<void> bench(Report& report, const Settings& s) {
  note_page_cache(report, s);
  ColdPlatform platform(s.sluice, s.runtime, s.folder);
  SLUICE_TRY(platform.wait_until_up());
  SLUICE_TRY(bench_model(report, s, platform));
  return bench_python(report, s, platform);
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
  ::chmod(s.folder.c_str(), 0711);  // instances of other users read what lies in it
  const auto outcome = bench(report, s);
  std::filesystem::remove_all(s.folder);
  if (!outcome.ok()) report.fail(outcome.error().message);
  return report.finish();
}
