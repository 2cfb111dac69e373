// A journal in memory, for tests, benchmarks and simulations. One thread.
#pragma once

#include "control/journal.h"

namespace sluice::control {

class MemoryJournal : public Journal {
 public:
  Result<void> write(JournalEntry& entry) override;
  Result<void> forget(const FunctionName& f) override;
  Result<std::vector<Decision>> decisions(const std::optional<FunctionName>& f, int limit) override;
  Result<std::map<std::string, Reason>> notices() override;
  Result<std::vector<RateSample>> rates(const FunctionName& f, int64_t since_second) override;
  Result<std::vector<ArrivalHour>> arrivals(const FunctionName& f) override;
  Result<Accounts> accounts() override { return accounts_; }
  Result<std::vector<StoredInstance>> instances() override;

  bool full = false;  // from now on writing fails
  int writes = 0;     // attempts

 private:
  std::vector<Decision> decisions_;
  std::map<FunctionName, std::map<int64_t, RateSample>> rates_;      // by second
  std::map<FunctionName, std::map<int64_t, ArrivalHour>> arrivals_;  // by hour
  Accounts accounts_;
  std::map<InstanceId, StoredInstance> instances_;
};

}  // namespace sluice::control
