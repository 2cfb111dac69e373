// bench_gateway: our gateway beside nginx and haproxy: same upstream, same cores, as many workers.
// Load from wrk, one contender after the other; a figure is the median over rounds, a ratio the
// median of the rounds' ratios. Every round starts all processes anew: two starts of one program
// can differ by a third for as long as they live, so rounds on one start would repeat one sample.
// Beside requests a second and p99 stands the CPU time per request, which a busy machine disturbs
// least.
//
//   bench_gateway [--rounds 7] [--seconds 3] [--workers 1] [--json FILE]
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <thread>

#include "base/check.h"
#include "base/random.h"
#include "bench/gateway/contender.h"
#include "bench/gateway/upstream.h"
#include "bench/report.h"
#include "wire/http/http.h"

namespace {

using namespace sluice;
using namespace sluice::bench;
using wire::http::verb;

const std::string kSources = std::string(SLUICE_SOURCE_DIR) + "/bench/gateway";

struct Cores {
  std::string proxy, upstream, load;
};

// The proxies' cores first, then one for the upstream and one for wrk; shared if cores are few.
Cores cores_for(int workers) {
  const int n = static_cast<int>(std::thread::hardware_concurrency());
  return {.proxy = workers == 1 ? "0" : "0-" + std::to_string(std::min(workers, n) - 1),
          .upstream = std::to_string(std::min(workers, n - 1)),
          .load = std::to_string(std::min(workers + 1, n - 1))};
}

struct Contender {
  std::string name;
  int port = 0;
  std::unique_ptr<Process> process;
};

struct Round {
  double rps = 0, p99 = 0, cpu_us = 0;
};

struct Load {
  const char* name;
  int body_bytes, connections;
};
constexpr Load kLoads[] = {{"1 KiB", 1024, 64}, {"600 KiB", 600 * 1024, 16}};

// Each contender's result under a load, round by round.
using Seen = std::map<std::string, std::vector<Round>>;

// All processes of one round.
class Bed {
 public:
  Bed(Report& report, int workers)
      : report_(report), workers_(workers), cores_(cores_for(workers)) {
    char dir[] = "/tmp/sluice-bench-gateway-XXXXXX";
    SLUICE_CHECK(::mkdtemp(dir) != nullptr, "no folder under /tmp");
    dir_ = dir;
    std::filesystem::permissions(dir_, std::filesystem::perms(0755));
    start_upstream();
    start_proxies();
  }

  ~Bed() {
    contenders_.clear();
    ::kill(upstream_, SIGKILL);
    ::waitpid(upstream_, nullptr, 0);
    std::filesystem::remove_all(dir_);
  }

  // Every contender must pass a body on unchanged and the answer back, or figures mean nothing.
  bool verify() {
    for (Contender& c : contenders_)
      for (const Load& load : kLoads)
        if (!verify(c, static_cast<size_t>(load.body_bytes))) return false;
    return true;
  }

  void measure(const Load& load, int seconds, Seen& seen) {
    for (Contender& c : contenders_) seen[c.name].push_back(one_round(c, load, seconds));
  }

 private:
  void start_upstream() {
    const int port = free_port();
    upstream_at_ = "127.0.0.1:" + std::to_string(port);
    Fd listening =
        std::move(*wire::listen_on({.host = "127.0.0.1", .port = static_cast<uint16_t>(port)}));
    void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SLUICE_CHECK(page != MAP_FAILED, "no shared page");
    answered_ = new (page) std::atomic<uint64_t>(0);
    upstream_ = ::fork();
    SLUICE_CHECK(upstream_ >= 0, "fork");
    if (upstream_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<size_t>(std::atoi(cores_.upstream.c_str())), &set);
      ::sched_setaffinity(0, sizeof set, &set);
      serve_upstream(listening.get(), *answered_);
    }
  }

  void start_proxies() {
    const auto config = [&](const std::string& file, int port) {
      std::string to = dir_ + "/" + file;
      std::ofstream(to) << filled_in(kSources + "/" + file,
                                     {{"WORKERS", std::to_string(workers_)},
                                      {"DIR", dir_},
                                      {"LISTEN", "127.0.0.1:" + std::to_string(port)},
                                      {"UPSTREAM", upstream_at_}});
      return to;
    };
    const std::string sluice =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sluice";
    const std::string admin = dir_ + "/admin.sock";
    int port = free_port();
    start("sluice", port,
          {sluice, "gateway", "--listen", "127.0.0.1:" + std::to_string(port), "--admin", admin,
           "--threads", std::to_string(workers_)});
    port = free_port();
    start("nginx", port, {"nginx", "-c", config("nginx.conf", port), "-p", dir_});
    port = free_port();
    start("haproxy", port, {"haproxy", "-db", "-f", config("haproxy.cfg", port)});
    put_routes(admin);
  }

  void start(const std::string& name, int port, const std::vector<std::string>& command) {
    contenders_.push_back(
        {name, port, std::make_unique<Process>(command, cores_.proxy, dir_ + "/" + name + ".log")});
  }

  void put_routes(const std::string& admin) {
    const nlohmann::json table{{"version", 1},
                               {"functions",
                                {{{"name", "bench"},
                                  {"max_queue", 10000},
                                  {"revisions", {{{"number", 1}, {"percent", 100}}}},
                                  {"instances",
                                   {{{"id", "one"},
                                     {"revision", 1},
                                     {"socket", upstream_at_},
                                     {"credit", 1000},
                                     {"capability", 1}}}}}}}};
    const SteadyClock clock;
    for (const Time end = clock.now() + Seconds(10); clock.now() < end; ::usleep(20'000))
      if (wire::HttpClient({.path = admin}).json(verb::put, "/v1/routes", table).ok()) return;
    report_.fail("the gateway did not come up");
  }

  bool verify(Contender& c, size_t size) {
    Random random(size);
    std::string body(size, '\0');
    for (char& byte : body) byte = static_cast<char>(random.below(256));
    wire::HttpRequest request{verb::post, "/v2/models/bench/infer", 11};
    request.set(wire::http::field::host, "bench");
    request.set("X-Verify", "1");
    request.body() = body;
    request.prepare_payload();
    const std::string expected = "sum=" + std::to_string(checksum(0, body)) + " ";
    const SteadyClock clock;
    std::string last = "no answer";
    for (const Time end = clock.now() + Seconds(5); clock.now() < end; ::usleep(50'000)) {
      wire::HttpClient client({.host = "127.0.0.1", .port = static_cast<uint16_t>(c.port)});
      const auto answer = client.send(request);
      if (!answer.ok()) {
        last = answer.error().message;
        continue;
      }
      if (answer->result_int() == 200 && answer->body().starts_with(expected)) return true;
      last = std::to_string(answer->result_int()) + " " + answer->body().substr(0, 60);
      break;
    }
    report_.fail(c.name + " answers " + std::to_string(size) + " bytes wrongly: " + last);
    return false;
  }

  Round one_round(Contender& c, const Load& load, int seconds) {
    const uint64_t before = answered_->load();
    const Nanos cpu = c.process->cpu();
    const LoadResult result =
        run_wrk(kSources + "/load.lua", "http://127.0.0.1:" + std::to_string(c.port), cores_.load,
                load.connections, load.body_bytes, seconds);
    const Nanos used = c.process->cpu() - cpu;
    const uint64_t worked = answered_->load() - before;
    if (result.requests == 0 || worked < result.requests) report_.fail(c.name + " did no work");
    if (result.errors > 0)
      report_.fail(c.name + ": " + std::to_string(result.errors) + " wrong answers");
    return {.rps = result.requests_per_second,
            .p99 = result.p99_us,
            .cpu_us = static_cast<double>(used.count()) / 1e3 /
                      static_cast<double>(std::max<uint64_t>(worked, 1))};
  }

  Report& report_;
  const int workers_;
  const Cores cores_;
  std::string dir_, upstream_at_;
  pid_t upstream_ = -1;
  std::atomic<uint64_t>* answered_ = nullptr;
  std::vector<Contender> contenders_;
};

void add(Report& report, const std::string& what, const char* unit, double Round::*figure,
         const Seen& seen, const char* reference, double at_least, double at_most) {
  const std::vector<Round>&ours = seen.at("sluice"), &theirs = seen.at(reference);
  std::vector<double> values, references, ratios;
  for (size_t i = 0; i < ours.size(); ++i) {
    values.push_back(ours[i].*figure);
    references.push_back(theirs[i].*figure);
    ratios.push_back(ours[i].*figure / (theirs[i].*figure));
  }
  const Samples v = summarise(values);
  Row row(what, v.p50, unit);
  row.beside(reference, summarise(references).p50).of(v);
  row.ratio = summarise(ratios).p50;
  if (at_least > 0) row.ratio_at_least(at_least);
  if (at_most > 0) row.ratio_at_most(at_most);
  report.add(row);
}

void add(Report& report, const std::string& what, const Seen& seen) {
  for (const char* reference : {"nginx", "haproxy"}) {
    const bool judged = reference == std::string("nginx");
    add(report, what + " requests/s", "1/s", &Round::rps, seen, reference, judged ? 1.0 : 0, 0);
    add(report, what + " p99", "us", &Round::p99, seen, reference, 0, judged ? 1.2 : 0);
    add(report, what + " CPU a request", "us", &Round::cpu_us, seen, reference, 0, 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Report report("gateway", argc, argv);
  const int rounds = int_argument(argc, argv, "--rounds", 7);
  const int seconds = int_argument(argc, argv, "--seconds", 3);
  const int workers = int_argument(argc, argv, "--workers", 1);
  std::map<std::string, Seen> seen;
  for (int round = 0; round < rounds; ++round) {
    Bed bed(report, workers);
    if (!bed.verify()) return report.finish();
    for (const Load& load : kLoads) bed.measure(load, seconds, seen[load.name]);
  }
  for (const Load& load : kLoads) add(report, load.name, seen[load.name]);
  return report.finish();
}
