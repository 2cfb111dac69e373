// A device as a fluid: each busy client has a rate, what a window of the arbiter gives it beside
// the others that are busy (sharing.h). Rates change where a batch begins or ends, where a client
// has used its limit's part of a window, and where one comes, goes or is resized; between those
// moments nothing happens. Not thread-safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "sim/device.h"
#include "sim/sharing.h"

namespace sluice::sim {

class FluidDevice : public SimulatedDevice {
 public:
  explicit FluidDevice(const Physics& physics) : physics_(physics) {}

  Result<void> run(std::string_view arbiter) override;
  Result<void> admit(const policy::ShareClient& share, Time now) override;
  void remove(policy::ClientId id, Time now) override;
  bool empty() const override { return clients_.empty(); }
  void begin(policy::ClientId id, Nanos work, int batch, Time due, Time now) override;
  Time next() const override { return next_; }
  std::vector<policy::ClientId> step(Time now) override;
  Nanos used(policy::ClientId id, Time now) const override;
  const policy::ShareClient* share_of(policy::ClientId id) const override;
  int64_t steps() const override { return steps_; }

 private:
  struct Client {
    policy::ShareClient share;
    Nanos left{0};  // of the current batch's work
    Nanos used{0};  // busy time, cumulative, until now_
    // What it may still use at once: as much as makes its use the limit's part of a window.
    Nanos credit{0};
    bool working = false;
    int64_t busy_rate = 0, work_rate = 0;  // in millionths, while it works
  };

  Share limit_of(const Client& c) const {
    return rule_->lends ? c.share.quota.limit : c.share.quota.request;
  }
  Nanos most_credit(const Client& c) const;
  const Client& client(policy::ClientId id) const;
  Client& client(policy::ClientId id) {
    return const_cast<Client&>(std::as_const(*this).client(id));
  }
  void pass(Time now);
  void set_rates();

  const Physics physics_;
  std::unique_ptr<policy::Arbiter> arbiter_;  // says which slices it accepts
  const SharingRule* rule_ = nullptr;
  Nanos window_{0};
  std::vector<Client> clients_;  // by id
  std::vector<Sharer> sharers_;  // of set_rates(); kept for its memory
  Time now_{};
  Time next_ = Time::max();
  int64_t steps_ = 0;
};

}  // namespace sluice::sim
