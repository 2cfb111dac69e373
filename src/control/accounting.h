// What a function held, used and cost (DESIGN §1, *Cost*): sm × request for as long as it is held,
// plus what was used above it, at the device's price; per instance and step, so that shares are
// multiplied before they are added. Pure.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "control/cluster.h"

namespace sluice::control {

struct Account {
  double slice_seconds = 0;  // ∫ sm × request dt, in seconds of a whole device
  double used_seconds = 0;   // ∫ sm × used dt
  double cost = 0;           // in the unit of the prices
  uint64_t resizes = 0, starts = 0, stops = 0;

  bool operator==(const Account&) const = default;
  double per_thousand(uint64_t requests) const {
    return requests == 0 ? 0 : cost * 1000 / static_cast<double>(requests);
  }
};
nlohmann::json to_json(const Account& a);
Account account_from(const nlohmann::json& j);

class Accounting {
 public:
  // Charges functions for their living instances and the time since the last step. A program of
  // somebody's own costs no function anything; its share is known all the same.
  void step(const std::vector<ObservedInstance>& instances, const std::vector<Device>& devices,
            Nanos elapsed);
  Account& of(const FunctionName& f) { return accounts_[f]; }
  // Empty for a function that has none yet.
  Account of(const FunctionName& f) const {
    const auto found = accounts_.find(f);
    return found == accounts_.end() ? Account{} : found->second;
  }
  // Busy time by instance at the last step; restored, so that it is not charged again.
  const std::map<InstanceId, Nanos>& used() const { return used_; }
  void restore_used(std::map<InstanceId, Nanos> used) { used_ = std::move(used); }
  // Of its window, over the time before the last step: what a listing shows beside the quota.
  Share used_share(const InstanceId& i) const {
    const auto found = shares_.find(i);
    return found == shares_.end() ? kNone : found->second;
  }
  void forget(const FunctionName& f) { accounts_.erase(f); }

 private:
  std::map<FunctionName, Account> accounts_;
  std::map<InstanceId, Nanos> used_;  // at the last step
  std::map<InstanceId, Share> shares_;
};

}  // namespace sluice::control
