// permit: the cost of a permit. The inline function that both gates call, within budget, all in
// (checkpoints included), beside the two usual ways: a token asked over a Unix socket, and a bucket
// behind a mutex. Then the time from a grant until a blocked client runs, and from asking, by way
// of the daemon, until running; and the time for 256 processes to attach at once.
#include "wire/permit.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <mutex>
#include <new>
#include <thread>

#include "bench/report.h"
#include "bench/sliced_device.h"
#include "bench/timing.h"
#include "enforce/page.h"

namespace sluice::bench {
namespace {

constexpr int kBatch = 1000;   // passes per timing
constexpr int kRounds = 2000;  // timings of each kind, interleaved
constexpr int kWakes = 3000;

// Attaches this process's gates to the slices of a device of its own, one each.
template <size_t n>
void attach(SlicedDevice& device, sluice_gate (&gates)[n]) {
  for (size_t i = 0; i < n; ++i) {
    auto a = device.attach(static_cast<policy::ClientId>(i));
    const int fds[3] = {a.pages.permit.release(), a.pages.usage.release(), a.bell.release()};
    SLUICE_CHECK(sluice_attach_pages(&gates[i], sluice_process_of(&gates[i]), fds, -1), "pages");
  }
}

struct Bucket {
  std::mutex mutex;
  double tokens = 1e9;
  uint64_t refilled = now_ns();

  bool take() {
    const std::lock_guard lock(mutex);
    const uint64_t now = now_ns();
    tokens += static_cast<double>(now - std::exchange(refilled, now));
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  }
};

// Answers one byte with one byte, in a process of its own.
class TokenServer {
 public:
  TokenServer() {
    SLUICE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair_) == 0, "socketpair");
    pid_ = fork();
    if (pid_ != 0) {
      close(pair_[1]);
      return;
    }
    close(pair_[0]);
    char token;
    while (recv(pair_[1], &token, 1, 0) == 1) (void)!send(pair_[1], &token, 1, MSG_NOSIGNAL);
    _exit(0);
  }
  ~TokenServer() {
    close(pair_[0]);
    waitpid(pid_, nullptr, 0);
  }
  bool ask() {
    char token = 1;
    return send(pair_[0], &token, 1, MSG_NOSIGNAL) == 1 && recv(pair_[0], &token, 1, 0) == 1;
  }

 private:
  int pair_[2];
  pid_t pid_;
};

void fast_path(Report& report) {
  TokenServer server;  // forks before there are threads
  SlicedDevice device;
  sluice_gate gates[1] = {};
  attach(device, gates);
  Bucket bucket;
  static __thread sluice_thread* mine;
  std::vector<double> gate, locked, socket;
  bool all_served = true;
  for (int round = 0; round < kRounds; ++round) {
    gate.push_back(ns_each(kBatch, [&] { sluice_gate_pass(&gates[0], &mine); }));
    locked.push_back(ns_each(kBatch, [&] { all_served &= bucket.take(); }));
    socket.push_back(ns_each(1, [&] { all_served &= server.ask(); }));
  }
  sluice_gate_idle_begin(mine);
  const Samples g = summarise(gate), l = summarise(locked), s = summarise(socket);
  if (!all_served) report.fail("a reference gave no token");
  if (sluice_gate_state(&gates[0]) != SLUICE_GATE_ATTACHED) report.fail("not attached");
  report.add(Row("pass within budget, all in, p50", g.p50, "ns")
                 .beside("token over a Unix socket", s.p50)
                 .of(g)
                 .at_most(10));
  report.add(Row("pass within budget, all in, p50", g.p50, "ns")
                 .beside("bucket behind a mutex", l.p50)
                 .of(g)
                 .at_most(10));
  report.add(Row("pass within budget, all in, p99", g.p99, "ns").of(g));
}

// Returns R, S, … of proc(5).
char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end + 2 < line.size() ? line[name_end + 2] : '?';
}

struct Wake {
  std::atomic<uint64_t> granted_ns;
  std::atomic<int> round, done;
};

// From the daemon's store until the sleeping client returns from the gate.
void blocked_to_running(Report& report) {
  auto made = node::Pages::make(1);
  SLUICE_CHECK(made.ok(), "pages");
  node::Pages pages = std::move(made->first);
  const int bell = eventfd(0, EFD_NONBLOCK);
  auto* wake =
      new (mmap(nullptr, sizeof(Wake), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Wake{};
  auto* times = static_cast<double*>(mmap(nullptr, kWakes * sizeof(double), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto beat = [&] {
    __atomic_store_n(&pages.permit().heartbeat_ns, now_ns(), __ATOMIC_RELAXED);
  };
  beat();
  const pid_t child = fork();
  if (child == 0) {
    sluice_gate gate{};
    sluice_thread* mine = nullptr;
    const int fds[3] = {made->second.permit.get(), made->second.usage.get(), bell};
    if (!sluice_attach_pages(&gate, sluice_process_of(&gate), fds, -1)) _exit(1);
    for (int i = 0; i < kWakes; ++i) {
      while (wake->round != i) std::this_thread::yield();
      sluice_gate_pass(&gate, &mine);
      times[i] = static_cast<double>(now_ns() - wake->granted_ns) / 1000;
      wake->done = i + 1;
    }
    _exit(0);
  }
  for (int i = 0; i < kWakes; ++i) {
    sluice_permit_revoke(&pages.permit());
    beat();
    wake->round = i;
    while (!pages.usage().waiting || state_of(child) != 'S') std::this_thread::yield();
    usleep(100);
    beat();
    const uint64_t now = now_ns();
    wake->granted_ns = now;
    sluice_permit_grant(&pages.permit(), 1'000'000'000, now + 1'000'000'000, now);
    pages.wake();
    while (wake->done != i + 1) std::this_thread::yield();
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) report.fail("the client did not attach");
  const Samples s = summarise(std::vector<double>(times, times + kWakes));
  report.add(Row("blocked -> running p50", s.p50, "us").of(s).at_most(8));
  report.add(Row("blocked -> running p99", s.p99, "us").of(s));
}

// Two clients in turn; each asks while the permit lies with the other, which is idle: ask,
// doorbell, revocation, decision, grant, run.
void ask_grant_run(Report& report) {
  SlicedDevice device(2);
  sluice_gate gates[2] = {};
  attach(device, gates);
  sluice_thread* mine[2] = {};
  std::vector<double> us;
  for (int i = 0; i < kWakes; ++i) {
    const int who = i % 2;
    const uint64_t start = now_ns();
    sluice_gate_pass(&gates[who], &mine[who]);
    us.push_back(static_cast<double>(now_ns() - start) / 1000);
    sluice_gate_idle_begin(mine[who]);
    usleep(200);
  }
  const Samples s = summarise(us);
  report.add(Row("ask -> grant -> run p50", s.p50, "us").of(s));
  report.add(Row("ask -> grant -> run p99", s.p99, "us").of(s));
}

// 256 processes that attach in the same moment, each until it has its pages: what the whole crowd
// takes, and what the median of them waits.
void attach_at_once(Report& report) {
  constexpr int kProcesses = 256;
  struct Crowd {
    std::atomic<bool> go;
    std::atomic<int> born, attached;
    std::atomic<uint64_t> attached_ns[kProcesses];
  };
  auto* crowd =
      new (mmap(nullptr, sizeof(Crowd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
          Crowd{};
  const std::string path = "/tmp/sluice-crowd-" + std::to_string(getpid());
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    sluice_gate gate{.socket_path = path.c_str()};
    ++crowd->born;
    while (!crowd->go) usleep(200);
    sluice_process* process = sluice_process_of(&gate);
    while (process->current == nullptr) sluice_attach_first(&gate, process);
    crowd->attached_ns[i] = now_ns();
    ++crowd->attached;
    for (;;) pause();
  }
  SlicedDevice device;
  device.serve(path);
  while (crowd->born < kProcesses) usleep(1000);
  const uint64_t begin = now_ns();
  crowd->go = true;
  for (int looks = 0; crowd->attached < kProcesses && looks < 10'000; ++looks) usleep(1000);
  if (crowd->attached < kProcesses) report.fail("not all of them were attached");
  std::vector<double> ms;
  for (const auto& at : crowd->attached_ns) ms.push_back(static_cast<double>(at - begin) / 1e6);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  const Samples s = summarise(ms);
  report.add(Row("256 attach at once, p50", s.p50, "ms").of(s));
  report.add(Row("256 attach at once, the last", s.max, "ms").of(s));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Report report("permit", argc, argv);
  sluice::bench::fast_path(report);
  sluice::bench::blocked_to_running(report);
  sluice::bench::ask_grant_run(report);
  sluice::bench::attach_at_once(report);
  return report.finish();
}
