// host: one step of a device's host at 8 and 64 clients that all have work, under `planned`: it
// reads the clients' state, steps the HostedDevice, and hands out its permits. The reference is the
// earlier host, which did all this itself between its pages and the arbiter: its glue is kept here
// (FormerHost), under the same load. Both must grant the same.
//
// Pages are left out on both sides: a client is a few words that the host reads, and a meter. Times
// are of the thread's processor, so that a neighbour on the core costs nothing.
//
//   bench_host [--json FILE]
#include <time.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arbiters/hosted_device.h"
#include "base/check.h"
#include "bench/report.h"
#include "enforce/meter.h"

namespace sluice::bench {
namespace {

using policy::ClientId;

constexpr int kBatch = 50;     // steps per timing
constexpr int kRounds = 1000;  // timings of each, interleaved
constexpr int kWarmUp = 20;    // rounds
constexpr Time kStart{std::chrono::hours(1)};

// A client's own report.
struct Claims {
  bool waiting = false, want = false, resting = true;
};

// A client that uses its whole grant, and then stops. It is its own meter.
class BusyClient : public node::Meter {
 public:
  Claims claims_at(Time now) {
    const Nanos busy = std::min(now - seen_, left_);
    seen_ = now;
    left_ -= busy;
    unread_ += busy;
    if (busy > Nanos(0)) last_active_ = now;
    const bool runs = left_ > Nanos(0);
    return {.waiting = !runs, .want = true, .resting = !runs};
  }
  void grant(const policy::Grant& grant) { left_ = grant.budget; }
  void revoke() { left_ = Nanos(0); }
  void show_contention(bool contended) { contended_ = contended; }

  std::optional<node::Reading> poll(Time now, bool) override {
    if (std::exchange(polled_, now) == now) return std::nullopt;
    return node::Reading{std::exchange(unread_, Nanos(0)), now};
  }
  Time last_active() const override { return last_active_; }
  Nanos lag() const override { return Millis(12); }

 private:
  Time seen_ = kStart, last_active_ = kStart, polled_{};
  Nanos left_{0}, unread_{0};
  bool contended_ = false;
};

// In four lanes that fill the device, every other with an objective.
policy::ShareClient share_of(int i, int clients) {
  constexpr int kLanes = 4;
  const int turn = 1000 * kLanes / clients;
  return {.id = static_cast<ClientId>(i),
          .sm = {1000 / kLanes},
          .quota = {{turn}, {1000}},
          .position = {{i % kLanes * 250}, {i / kLanes * turn}},
          .has_slo = i % 2 == 0};
}

// As enforce/arbiter_host.cc, without pages.
class Host {
 public:
  explicit Host(int clients) : observations_(clients) {
    for (int i = 0; i < clients; ++i) {
      const auto admitted = device_.admit(share_of(i, clients), kStart);
      SLUICE_CHECK(admitted.ok(), admitted.error().message);
      clients_[i].meter = std::make_unique<BusyClient>();
    }
  }

  Time step(Time now) {
    for (auto& [id, client] : clients_) client.claims = client.meter->claims_at(now);
    auto seen = observations_.begin();
    auto hosted = device_.clients().begin();
    for (auto& [id, client] : clients_) observe(client, *hosted++, *seen++, now);
    const policy::PermitWrites* writes = &device_.step(now, observations_);
    for (carry_out(*writes); !writes->revoke.empty(); carry_out(*writes)) {
      revoked_.clear();
      for (const ClientId id : writes->revoke) {
        BusyClient& client = *clients_.at(id).meter;
        revoked_.push_back({id, quiet_by(client, now, now, client.claims_at(now).resting)});
      }
      writes = &device_.resume(revoked_);
    }
    return writes->next;
  }
  int64_t grants() const { return grants_; }

 private:
  struct Client {
    std::unique_ptr<BusyClient> meter;
    Claims claims;
  };

  static Time quiet_by(node::Meter& meter, Time now, Time revoked_at, bool resting) {
    return meter.drained(now, revoked_at, resting) ? now : meter.look_again(now, revoked_at);
  }

  static void observe(const Client& client, const policy::HostedDevice::Client& hosted,
                      policy::ClientObservation& seen, Time now) {
    node::Meter& meter = *client.meter;
    seen.client = hosted.id;
    seen.waiting = client.claims.waiting;
    seen.want = client.claims.want;
    seen.resting = client.claims.resting;
    seen.readings.clear();
    while (const auto reading = meter.poll(now, seen.resting)) seen.readings.push_back(*reading);
    seen.last_active = meter.last_active();
    seen.lag = meter.lag();
    seen.quiet_by =
        hosted.quiescing ? quiet_by(meter, now, hosted.revoked_at, seen.resting) : Time::max();
  }

  void carry_out(const policy::PermitWrites& writes) {
    for (const ClientId id : writes.revoke) {
      BusyClient& client = *clients_.at(id).meter;
      client.revoked(kStart);
      client.revoke();
    }
    for (const policy::Grant& g : writes.grant) {
      BusyClient& client = *clients_.at(g.client).meter;
      client.granted(kStart);
      client.grant(g);
    }
    grants_ += static_cast<int64_t>(writes.grant.size());
    for (const auto& [id, contended] : writes.contended)
      clients_.at(id).meter->show_contention(contended);
  }

  policy::HostedDevice device_{*policy::make_arbiter("planned", {}),
                               policy::HostedDevice::Budgets::kCountedByClients};
  std::map<ClientId, Client> clients_;
  std::vector<policy::ClientObservation> observations_;
  std::vector<policy::Quiescence> revoked_;
  int64_t grants_ = 0;
};

// The earlier host: its clients know all, and it acts on each observation as it is made.
class FormerHost {
 public:
  explicit FormerHost(int clients) {
    for (int i = 0; i < clients; ++i) {
      const auto admitted = arbiter_->admit(share_of(i, clients), kStart);
      SLUICE_CHECK(admitted.ok(), admitted.error().message);
      clients_[i].id = i;
      clients_[i].meter = std::make_unique<BusyClient>();
    }
  }

  Time step(Time now) {
    for (auto& [id, client] : clients_) client.claims = client.meter->claims_at(now);
    for (auto& [id, client] : clients_) observe(client, now);
    for (int round = 0; round < 4 && decide(now); ++round) {
    }
    for (const auto& [id, client] : clients_) look_again(client, now);
    show_contention(now);
    return next_ = std::max(next_, now + Micros(20));
  }
  int64_t grants() const { return grants_; }

 private:
  struct Client {
    ClientId id = 0;
    std::unique_ptr<BusyClient> meter;
    std::optional<policy::Grant> grant;
    Time expected_since{};
    Nanos unused{0}, spent{0}, used{0};
    bool draining = false, wanting = false, unmoved = false, contended = false;
    Time revoked_at{}, due = Time::max();
    Claims claims;
  };

  bool decide(Time now) {
    const policy::Permits permits = arbiter_->step(now);
    next_ = permits.next;
    for (const ClientId id : permits.revoke) revoke(clients_.at(id), now);
    for (const policy::Grant& g : permits.grant) grant(clients_.at(g.client), g, now);
    bool freed = false;
    for (const ClientId id : permits.revoke) {
      Client& client = clients_.at(id);
      freed |= notice_drained(client, client.meter->claims_at(now), now);
    }
    return freed;
  }

  void observe(Client& client, Time now) {
    const Claims& c = client.claims;
    node::Meter& meter = *client.meter;
    while (const auto reading = meter.poll(now, c.resting)) {
      client.used += reading->busy;
      client.spent += reading->busy;
      arbiter_->charge(client.id, reading->busy, reading->seen_until, now);
    }
    if (client.grant && (client.spent >= client.grant->budget || now >= client.grant->valid_until))
      revoke(client, now);
    const bool active = now - meter.last_active() < meter.lag();
    if (active)
      client.unmoved = false;
    else if (client.grant && now - client.expected_since >= meter.lag())
      client.unmoved = true;
    const bool wanting = (c.waiting && !client.unmoved) || (c.want && active);
    if (wanting != client.wanting) arbiter_->want(client.id, wanting, now);
    client.wanting = wanting;
    const Time due = Time::max();
    if (due != client.due) arbiter_->deadline(client.id, due, now);
    client.due = due;
    notice_drained(client, c, now);
  }

  bool notice_drained(Client& client, const Claims& c, Time now) {
    if (client.grant && c.waiting && c.resting) revoke(client, now);
    if (!client.draining) return false;
    node::Meter& meter = *client.meter;
    if (!meter.drained(now, client.revoked_at, c.resting)) return false;
    client.draining = false;
    arbiter_->drained(client.id, now);
    return true;
  }

  void look_again(const Client& client, Time now) {
    const auto look_at = [&](Time t) {
      if (t > now) next_ = std::min(next_, t);
    };
    const node::Meter& meter = *client.meter;
    if (client.draining) return look_at(meter.look_again(now, client.revoked_at));
    if (!client.grant || !client.wanting) return;
    look_at(std::max(meter.last_active(), client.expected_since) + meter.lag());
  }

  void revoke(Client& client, Time now) {
    node::Meter& meter = *client.meter;
    if (client.grant)
      client.unused =
          std::max(now - std::max(client.expected_since, meter.last_active()), Nanos(0));
    client.grant.reset();
    client.draining = true;
    client.revoked_at = now;
    meter.revoked(now);
    client.meter->revoke();
  }

  void grant(Client& client, const policy::Grant& grant, Time now) {
    node::Meter& meter = *client.meter;
    if (!client.grant) client.expected_since = now - client.unused;
    client.grant = grant;
    client.spent = Nanos(0);
    client.draining = false;
    meter.granted(now);
    client.meter->grant(grant);
    ++grants_;
  }

  void show_contention(Time now) {
    const auto waits = [](const auto& c) { return c.second.wanting && !c.second.grant; };
    const auto waiting = std::count_if(clients_.begin(), clients_.end(), waits);
    for (auto& entry : clients_) {
      Client& client = entry.second;
      const bool contended = waiting > (waits(entry) ? 1 : 0);
      client.meter->show_contention(contended);
      if (std::exchange(client.contended, contended) != contended && contended) next_ = now;
    }
  }

  std::unique_ptr<policy::Arbiter> arbiter_ = *policy::make_arbiter("planned", {});
  std::map<ClientId, Client> clients_;
  Time next_{};
  int64_t grants_ = 0;
};

double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

template <class AnyHost>
struct Contender {
  AnyHost host;
  Time now = kStart;
  std::vector<double> us;

  void run(bool counts) {
    const double start = cpu_us();
    for (int i = 0; i < kBatch; ++i) now = host.step(now);
    if (counts) us.push_back((cpu_us() - start) / kBatch);
  }
};

void measure(Report& report, int clients) {
  Contender<Host> host{Host(clients)};
  Contender<FormerHost> former{FormerHost(clients)};
  for (int round = 0; round < kWarmUp + kRounds; ++round) {
    host.run(round >= kWarmUp);
    former.run(round >= kWarmUp);
  }
  constexpr int64_t kSteps = int64_t{kBatch} * (kWarmUp + kRounds);
  if (host.host.grants() * 10 < kSteps) report.fail("the host granted nothing");
  if (host.host.grants() != former.host.grants() || host.now != former.now)
    report.fail("the two hosts did not do the same");
  const Samples s = summarise(host.us);
  report.add(Row("a step, " + std::to_string(clients) + " clients, p50", s.p50, "us")
                 .beside("the host before the split", summarise(former.us).p50)
                 .of(s)
                 .ratio_at_most(1.1));
}

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  sluice::bench::Report report("host", argc, argv);
  for (const int clients : {8, 64}) sluice::bench::measure(report, clients);
  return report.finish();
}
