// A function's holdings, use and cost: sm × request for as long as it is held, plus the use above
// it, at the device's price, summed over its parts. Charged per instance and step, so that shares
// are multiplied before they are added. Pure.
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
  // Charges functions for their living instances and the time since the last step. A foreign
  // program costs no function anything; its used share is known all the same.
  void step(const std::vector<ObservedInstance>& instances, const std::vector<Device>& devices,
            Nanos elapsed);
  Account& of(const FunctionName& f) { return accounts_[f]; }
  // Returns an empty account for a function without one.
  Account of(const FunctionName& f) const {
    const auto found = accounts_.find(f);
    return found == accounts_.end() ? Account{} : found->second;
  }
  // An instance's busy time at the last step; restored, so that it is not charged again.
  struct Used {
    FunctionName function;
    Nanos busy{0};
    Share share;  // of its window, over the time before that step; the mean of several parts
    Share limit;  // its largest in that time; the mean of several parts
    Share limit_now;
  };
  const std::map<InstanceId, Used>& used() const { return used_; }
  void restore_used(const InstanceId& i, Used used) { used_[i] = std::move(used); }
  // For listings beside the quota.
  Share used_share(const InstanceId& i) const {
    const auto found = used_.find(i);
    return found == used_.end() ? kNone : found->second.share;
  }
  Share used_limit(const InstanceId& i) const {
    const auto found = used_.find(i);
    return found == used_.end() ? kNone : found->second.limit;
  }
  void forget(const FunctionName& f) { accounts_.erase(f); }

 private:
  std::map<FunctionName, Account> accounts_;
  std::map<InstanceId, Used> used_;
};

}  // namespace sluice::control
