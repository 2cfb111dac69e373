// arbiter: one decision at 64 clients that all have work, by every arbiter: the charges that the
// host reports before it, and the step. The reference is FaST-GShare's released scheduler, as its
// repository describes itself (written anew here). For each decision it sums up the grants of the
// last window by client name. It puts all waiting clients into a list, sorts it, and copies the
// fitting ones out. Its sockets, locks and log are left out, and so is the host's work.
//
//   bench_arbiter [--json FILE]
#include <time.h>

#include <list>
#include <map>
#include <memory>
#include <string>

#include "arbiters/busy_device.h"
#include "bench/report.h"

namespace sluice::bench {
namespace {

constexpr int kClients = 64;
constexpr int kBatch = 50;     // decisions per timing
constexpr int kRounds = 2000;  // timings of each, interleaved
constexpr int kWarmUp = 20;    // rounds

// FaST-GShare's scheduler under the same load, with its clock in milliseconds.
class SortPerGrant {
 public:
  SortPerGrant() {
    for (int i = 0; i < kClients; ++i) {
      const std::string name = "default/fastpod-" + std::to_string(100 + i);
      clients_[name] = {.request = 4.0 / kClients, .limit = 1, .sm = 25};
      waiting_.push_back({name, 0});
    }
  }

  // Ended tokens are returned, their clients ask again, and a client is picked.
  void step() {
    for (auto t = running_.begin(); t != running_.end();) {
      if (t->until > now_) {
        ++t;
        continue;
      }
      free_sm_ += clients_[t->name].sm;
      waiting_.push_back(*t);
      t = running_.erase(t);
    }
    for (const Token& picked : pick()) {
      const Client& c = clients_[picked.name];
      Token token = picked;
      token.until = now_ + c.request * kWindow;
      history_.push_back({token.name, now_, token.until});
      running_.push_back(token);
      free_sm_ -= c.sm;
      ++grants_;
    }
    double next = now_ + kWindow;
    for (const Token& t : running_) next = std::min(next, t.until);
    now_ = next;
  }

  int64_t grants() const { return grants_; }

 private:
  static constexpr double kWindow = 20;
  struct Client {
    double request = 0, limit = 0;
    int sm = 0;
  };
  struct Token {
    std::string name;
    double until = 0;
  };
  struct Span {
    std::string name;
    double from = 0, until = 0;
  };
  struct Choice {
    double used, under_request;
    std::list<Token>::iterator token;
  };

  std::vector<Token> pick() {
    const double begin = now_ - kWindow;
    history_.remove_if([begin](const Span& s) { return s.until < begin; });
    std::map<std::string, double> used;
    for (const Span& s : history_) used[s.name] += s.until - std::max(begin, s.from);
    std::vector<Choice> choices;
    for (auto t = waiting_.begin(); t != waiting_.end(); ++t) {
      const std::string name = t->name;
      const double mine = used[name];
      if (clients_[name].limit * kWindow > mine)
        choices.push_back({mine, clients_[name].request * kWindow - mine, t});
    }
    std::sort(choices.begin(), choices.end(), [](const Choice& a, const Choice& b) {
      return a.under_request != b.under_request ? a.under_request > b.under_request
                                                : a.used < b.used;
    });
    std::vector<Token> picked;
    int room = free_sm_;
    for (const Choice& c : choices) {
      const std::string name = c.token->name;
      if (clients_[name].sm > room) continue;
      room -= clients_[name].sm;
      picked.push_back(*c.token);
      waiting_.erase(c.token);
    }
    return picked;
  }

  std::map<std::string, Client> clients_;
  std::list<Token> waiting_, running_;
  std::list<Span> history_;
  double now_ = 1000;
  int free_sm_ = 100;
  int64_t grants_ = 0;
};

// For this thread alone, so that a neighbour on the core costs nothing.
double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

template <class Device>
double us_per_step(Device& device) {
  const double start = cpu_us();
  for (int i = 0; i < kBatch; ++i) device.step();
  return (cpu_us() - start) / kBatch;
}

void measure(Report& report) {
  struct Contender {
    std::string name;
    policy::BusyDevice device;
    std::vector<double> us;
  };
  std::vector<Contender> contenders;
  for (const std::string& name : policy::arbiter_names(DeviceKind::kCpu))
    contenders.push_back({name, policy::BusyDevice(name, kClients), {}});
  SortPerGrant released;
  std::vector<double> released_us;
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    const double reference = us_per_step(released);
    if (round >= kWarmUp) released_us.push_back(reference);
    for (Contender& c : contenders) {
      const double us = us_per_step(c.device);
      if (round >= kWarmUp) c.us.push_back(us);
    }
  }

  constexpr int64_t kSteps = int64_t{kBatch} * (kWarmUp + kRounds);
  if (released.grants() * 2 < kSteps) report.fail("the reference granted nothing");
  const Samples r = summarise(released_us);
  for (const auto& c : contenders) {
    if (c.device.grants() * 10 < kSteps) report.fail(std::string(c.name) + " granted nothing");
    const Samples s = summarise(c.us);
    report.add(Row(std::string(c.name) + ", 64 clients, p50", s.p50, "us")
                   .beside("sort and copy per grant", r.p50)
                   .of(s)
                   .at_most(2));
  }
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Report report("arbiter", argc, argv);
  sluice::bench::measure(report);
  return report.finish();
}
