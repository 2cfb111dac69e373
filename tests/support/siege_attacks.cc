#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>

#include "base/check.h"
#include "tests/support/siege.h"
#include "wire/http/http.h"

namespace sluice::bench {
namespace {

constexpr double kHonestShare = 0.3;  // of capacity
const std::string kMetrics = "GET /metrics HTTP/1.1\r\nHost: sluice\r\n\r\n";

std::string head(uint64_t content_length) {
  return std::string("POST ") + GatewayBed::kInfer + " HTTP/1.1\r\nHost: sluice\r\n" +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(content_length) +
         "\r\n\r\n";
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

// A process without connections that uses so many cores.
class BusyProcess {
 public:
  explicit BusyProcess(double cores) {
    pid_ = ::fork();
    SLUICE_CHECK(pid_ >= 0, "fork");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const SteadyClock clock;
    const Time begin = clock.now();
    for (;;) {
      while (cpu_time(::getpid()) < from_seconds(seconds(clock.now() - begin) * cores)) {
      }
      ::usleep(1000);
    }
  }
  ~BusyProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;

 private:
  pid_t pid_;
};

OpenLoad honest_load(const Siege& siege, const GatewayBed& bed) {
  return {.port = bed.port(),
          .paths = {GatewayBed::kInfer},
          .ask = questions(64, siege.seed),
          .plan = {{siege.lasts, kHonestShare * bed.capacity()}},
          .seed = siege.seed,
          .patience = kHonestPatience,
          .fresh = 50,
          .resends = true};
}

Honest honest(const Siege& siege, const GatewayBed& bed) {
  const std::vector<Asked> asked = play(honest_load(siege, bed));
  return {.tally = tally(asked),
          .ms = latencies(asked, kHonestPatience),
          .rss_mib = peak_rss_mib(bed.gateway())};
}

// Waits until the crowd has opened its connections, or opens no more.
void wait_for(const Crowd& crowd, const Habit& habit) {
  const SteadyClock clock;
  const CrowdState& s = crowd.state();
  uint64_t last = 0;
  for (Time grew = clock.now(); clock.now() < grew + Seconds(3); ::usleep(20'000)) {
    const uint64_t opened = s.opened;
    if (opened >= static_cast<uint64_t>(habit.connections)) return;
    if (opened > last) grew = clock.now();
    last = opened;
  }
}

std::string about(const CrowdState& s, double cpu) {
  const auto mib = [](uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  return std::to_string(s.tried) + " connections tried, " + std::to_string(s.opened) + " opened, " +
         std::to_string(s.most_open) + " at once, " + std::to_string(s.closed) +
         " closed by the gateway, sent " + mib(s.sent) + ", read " + mib(s.received) + ", " +
         std::to_string(static_cast<int>(cpu * 100)) + " % of a core";
}

}  // namespace

std::vector<Attack> attacks(int descriptors, int scale) {
  const auto scaled = [scale](int n) { return std::max(1, n * scale / 1000); };
  // One pair of addresses has 28,000 ports; honest clients want some of them.
  const int idle = std::min(scaled(descriptors), 24'000);
  return {
      {"bodies", {.connections = scaled(10'000), .opening = head(372)}},
      {"slow-uploads",
       {.connections = scaled(80),
        .opening = head(60'000'000),
        .again = std::string(1024, ' '),
        .most = 60'000'000,
        .bytes_per_second = 80 * 1024}},
      {"pipelined", {.connections = scaled(100), .again = kMetrics}},
      {"unread",
       {.connections = scaled(5000), .opening = repeated(kMetrics, 2000), .reads = false}},
      {"idle", {.connections = idle}},
  };
}

Result<Attacked> attack(const Siege& siege, const Attack& with) {
  raise_descriptors();
  Attacked a;
  {
    GatewayBed bed(siege.gateway, siege.service);
    SLUICE_TRY(bed.ready());
    const Crowd crowd(bed.port(), with.habit);
    wait_for(crowd, with.habit);
    const SteadyClock clock;
    const Time begin = clock.now();
    const Nanos before = cpu_time(crowd.pid());
    a.beside_attack = honest(siege, bed);
    a.attacker_cpu = seconds(cpu_time(crowd.pid()) - before) / seconds(clock.now() - begin);
    const CrowdState& s = crowd.state();
    a.worked = s.tried >= static_cast<uint64_t>(with.habit.connections) && s.opened > 0 &&
               (with.habit.opening.empty() || s.sent > 0);
    a.about = about(s, a.attacker_cpu);
  }
  GatewayBed bed(siege.gateway, siege.service);
  SLUICE_TRY(bed.ready());
  const BusyProcess busy(a.attacker_cpu);
  a.beside_busy_process = honest(siege, bed);
  return a;
}

Result<HalfClosed> half_close(const Siege& siege) {
  GatewayBed bed(siege.gateway, siege.service);
  SLUICE_TRY(bed.ready());
  OpenLoad load = honest_load(siege, bed);
  load.half_closes = 500;
  std::vector<Asked> half, others;
  for (const Asked& a : play(load)) (a.half_closed ? half : others).push_back(a);
  return HalfClosed{tally(half), tally(others)};
}

Result<std::vector<Spelling>> spell_paths(const Siege& siege) {
  GatewayBed bed(siege.gateway, siege.service);
  SLUICE_TRY(bed.ready());
  const Question question = questions(1, siege.seed)[0];
  std::vector<Spelling> all;
  for (const char* path : {"/v2/models/simple/infer", "/v2/models/simple/inf%65r",
                           "/v2/models/simple//infer", "/v2/models/simple/infer/"}) {
    wire::HttpClient client({.host = "127.0.0.1", .port = bed.port()});
    SLUICE_ASSIGN(before, bed.inferences());
    SLUICE_ASSIGN(answer, client.call(wire::http::verb::post, path, question.body));
    SLUICE_ASSIGN(after, bed.inferences());
    Spelling s{
        .path = path, .status = static_cast<int>(answer.result_int()), .counted = after - before};
    const bool answered =
        s.status == 200 && answer.body().find(question.right) != std::string::npos;
    s.right = (answered && s.counted == 1) || (s.status == 404 && s.counted == 0);
    all.push_back(s);
  }
  return all;
}

}  // namespace sluice::bench
