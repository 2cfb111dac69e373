// A GPU as it is: the node daemon's HostedDevice with a device's arbiter, and clients that run
// batches on it, several at once where the arbiter lets them. A client behaves as a program under
// the hook (hook/):
//
//   - A batch is a sequence of operators of `grain` of time alone. Of each of them the program's
//     host works alone for the client's host part; the device runs the rest (TimeSlices).
//   - The host launches ahead: it prepares an operator while the device runs the one before.
//     Without a host part it launches at once. At the end it waits for all that it has launched.
//   - It launches while it has a budget, or a permit, and no more in flight than the arbiter
//     allows. A permit is held also while the host prepares. What is launched runs to its end.
//   - It reports its progress exactly, and is charged the device's time for what it launches.
//   - It notifies the host of the device when it begins to wait for a budget, and of the begin and
//     the end of a batch with an objective.
//
// Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "arbiters/hosted_device.h"
#include "sim/device.h"
#include "sim/time_slices.h"

namespace sluice::sim {

class GpuDevice : public SimulatedDevice {
 public:
  // REQUIRES: physics.gpu
  explicit GpuDevice(const Physics& physics);

  Result<void> run(std::string_view arbiter) override;
  Result<void> admit(const policy::ShareClient& share, Time now) override;
  void set_host(policy::ClientId id, Share host) override { clients_.at(id).host = host; }
  void remove(policy::ClientId id, Time now) override;
  bool empty() const override { return clients_.empty(); }
  void begin(policy::ClientId id, Nanos work, int batch, Time due, Time now) override;
  Time next() const override;
  std::vector<policy::ClientId> step(Time now) override;
  Nanos used(policy::ClientId id, Time) const override { return slices_.done(id); }
  const policy::ShareClient* share_of(policy::ClientId id) const override;
  int64_t steps() const override { return steps_; }

  // Returns what the client reports of its work.
  const policy::Progress& progress(policy::ClientId id) const { return clients_.at(id).progress; }

 private:
  struct Client {
    // Where its host is: without a batch; preparing an operator; waiting for a budget, for the
    // device, or for the batch's end.
    enum class At { kIdle, kPrepares, kGate, kBound, kEnd };

    policy::ShareClient share;
    Share host;
    At at = At::kIdle;
    Nanos work{0}, launched{0};  // of the batch, in time alone
    Time due = Time::max();
    Nanos preparation{0};  // of the next operator: the host's own time …
    Time prepared{};       // … which ends then
    policy::Progress progress;
    std::optional<policy::Grant> grant;
    Nanos granted_from{0};  // Progress::submitted then
    policy::Budget budget;
    bool contended = false;  // others wait, by its page
    Nanos charged{0};
    Time last_active{};
    std::vector<policy::Iteration> ended;  // since the last observation

    Nanos device_part(Nanos length) const { return length - length * host.permille / 1000; }
    Nanos in_flight() const { return progress.submitted - progress.finished; }
    bool may_launch(Time now) const;
    Nanos most_in_flight() const;
    bool batch_ended() const { return at == At::kEnd && in_flight() == Nanos(0); }
  };

  void pass(Time now);
  void notice_ends(Client& client);
  Nanos next_end(const Client& client) const;
  std::vector<policy::ClientId> end_batches();
  void go_on();
  void run_host(Client& client);
  void prepare(Client& client, Nanos behind);
  void launch(Client& client, Nanos length);
  void notify(const Client& client);
  void decide();
  void observe(Client& client, policy::ClientObservation& seen);
  Time quiet_by(policy::ClientId id) const;
  void write_permits(const policy::PermitWrites& writes);

  const Physics physics_;
  TimeSlices slices_;
  std::optional<policy::HostedDevice> hosted_;
  std::map<policy::ClientId, Client> clients_;
  std::vector<policy::ClientObservation> observations_;
  Time now_{};
  Time next_step_ = Time::max();
  bool step_due_ = false;
  int64_t steps_ = 0;
};

}  // namespace sluice::sim
