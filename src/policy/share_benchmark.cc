// What a decision costs: clients in lanes that fill the device, all with work, each step at the
// moment that the last one asked for, with what the host tells before it (a charge per client,
// drains).
#include <benchmark/benchmark.h>

#include <algorithm>

#include "base/check.h"
#include "policy/share.h"

namespace sluice::policy {
namespace {

// A host whose clients use all that they are granted and drain at once.
class Host {
 public:
  Host(std::string_view name, int clients) : arbiter_(*make_arbiter(name, {})), clients_(clients) {
    constexpr int kLanes = 4;
    const int turn = 1000 * kLanes / clients;
    for (int i = 0; i < clients; ++i) {
      const int lane = i % kLanes;
      const auto admitted = arbiter_->admit({.id = static_cast<ClientId>(i),
                                             .sm = {1000 / kLanes},
                                             .quota = {{turn}, {1000}},
                                             .position = {{lane * 250}, {i / kLanes * turn}},
                                             .has_slo = i % 2 == 0},
                                            now_);
      SLUICE_CHECK(admitted.ok(), admitted.error().message);
      arbiter_->want(i, true, now_);
    }
  }

  void report() {
    for (size_t id = 0; id < clients_.size(); ++id) {
      Holder& c = clients_[id];
      const Nanos busy = c.holds ? std::min(now_ - last_, c.left) : Nanos(0);
      c.left -= busy;
      arbiter_->charge(id, busy, now_, now_);
      if (!c.holds || c.left > Nanos(0)) continue;
      arbiter_->drained(id, now_);
      c.holds = false;
    }
  }

  void step() {
    const Permits permits = arbiter_->step(now_);
    for (const ClientId id : permits.revoke) clients_[id].left = Nanos(0);
    for (const Grant& g : permits.grant) clients_[g.client] = {true, g.budget};
    grants_ += static_cast<int64_t>(permits.grant.size());
    last_ = now_;
    now_ = std::max(permits.revoke.empty() ? permits.next : now_, now_ + Micros(10));
  }

  int64_t grants() const { return grants_; }

 private:
  struct Holder {
    bool holds = false;
    Nanos left{0};
  };
  std::unique_ptr<Arbiter> arbiter_;
  std::vector<Holder> clients_;
  Time now_{std::chrono::hours(1)};
  Time last_ = now_;
  int64_t grants_ = 0;
};

void step(benchmark::State& state, std::string_view name) {
  Host host(name, static_cast<int>(state.range(0)));
  for (auto _ : state) {
    host.report();
    host.step();
  }
  // A step that decides nothing would be quick: one in ten grants at least.
  SLUICE_CHECK(host.grants() * 10 >= static_cast<int64_t>(state.iterations()), "no work was done");
  state.counters["grants/step"] =
      static_cast<double>(host.grants()) / static_cast<double>(state.iterations());
}

const bool kRegistered = [] {
  for (const std::string_view name : arbiter_names()) {
    const auto run = [name](benchmark::State& state) { step(state, name); };
    benchmark::RegisterBenchmark(("step/" + std::string(name)).c_str(), run)
        ->Arg(4)
        ->Arg(16)
        ->Arg(64);
  }
  return true;
}();

}  // namespace
}  // namespace sluice::policy
