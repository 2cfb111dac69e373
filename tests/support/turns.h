// TestTurns: the simplest arbiter under which tests of the host can run real clients. One holder at
// a time, in turns of 2 ms among clients with work; no quotas. For tests only.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "arbiters/arbiter.h"

namespace sluice::policy {

class TestTurns : public Arbiter {
 public:
  static constexpr Nanos kTurn = Millis(2);    // of use
  static constexpr Nanos kLease = Millis(20);  // a permit ends then, used or not

  // The host's reports, for tests (the lists on its thread, or after its end).
  struct Log {
    std::atomic<int> wishes{0};  // how often a client began to want the device
    std::vector<ClientId> drained;
    std::vector<ShareClient> admitted;
  };

  explicit TestTurns(std::shared_ptr<Log> log = nullptr) : log_(std::move(log)) {}

  Result<void> admit(const ShareClient& client, Time) override {
    if (client.quota.request > kWhole) return Error{ErrorKind::kExhausted, "does not fit"};
    if (log_) log_->admitted.push_back(client);
    if (find(client.id) == clients_.end()) clients_.push_back({client.id, false});
    renew_ = true;
    return {};
  }
  void remove(ClientId id, Time) override {
    std::erase_if(clients_, [id](const Client& c) { return c.id == id; });
    if (holder_ == id) holder_ = kNobody;
  }
  void want(ClientId id, bool wanting, Time) override {
    const auto at = find(id);
    if (at != clients_.end()) at->wanting = wanting;
    if (log_ && wanting) ++log_->wishes;
  }
  void charge(ClientId id, Nanos busy, Time, Time) override {
    if (id == holder_) left_ -= busy;
  }
  void drained(ClientId id, Time) override {
    if (log_) log_->drained.push_back(id);
    if (id == holder_) holder_ = kNobody;
  }

  Permits step(Time now) override {
    Permits permits;
    const bool over = left_ <= Nanos(0) || now >= until_;
    if (holder_ != kNobody && over && others_want()) {
      if (!revoked_) permits.revoke.push_back(holder_);
      revoked_ = true;
    } else if (holder_ == kNobody || over || renew_) {
      take_turn(now, permits);
    }
    renew_ = false;
    if (holder_ != kNobody && others_want()) permits.next = std::max(until_, now + Millis(1));
    if (holder_ != kNobody && !others_want()) permits.next = until_;
    return permits;
  }

  std::string_view name() const override { return "turns"; }

 private:
  static constexpr ClientId kNobody = ~ClientId{0};
  struct Client {
    ClientId id;
    bool wanting;
  };
  std::vector<Client>::iterator find(ClientId id) {
    return std::find_if(clients_.begin(), clients_.end(), [id](auto& c) { return c.id == id; });
  }
  bool others_want() const {
    return std::any_of(clients_.begin(), clients_.end(),
                       [this](auto& c) { return c.wanting && c.id != holder_; });
  }
  // Chooses the wanting client that has waited longest, and moves it to the back.
  void take_turn(Time now, Permits& permits) {
    const auto next =
        std::find_if(clients_.begin(), clients_.end(), [](auto& c) { return c.wanting; });
    if (next == clients_.end()) return;
    std::rotate(next, next + 1, clients_.end());
    holder_ = clients_.back().id;
    left_ = kTurn;
    until_ = now + kLease;
    revoked_ = false;
    permits.grant.push_back({holder_, left_, until_});
  }

  std::shared_ptr<Log> log_;
  std::vector<Client> clients_;
  ClientId holder_ = kNobody;
  Nanos left_{0};
  Time until_{};
  bool revoked_ = false, renew_ = false;
};

}  // namespace sluice::policy
