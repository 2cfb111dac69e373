// The journal: the loop's record for the next loop and for people. One of the loop's ports. A
// tick writes it once, at its end. SQLite keeps it on this machine (store.h); an adapter in memory
// serves tests and simulations.
//
// One thread, the loop's.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/action.h"
#include "model/arrival_history.h"
#include "model/instance.h"

namespace sluice::control {

// A decision, with its result.
struct Decision {
  int64_t number = 0;  // ascending; 0: not written yet
  UnixMillis at = 0;
  FunctionName function;
  std::string action;     // "start", "stop", "resize", "unmet", "rollout", …
  std::string subject;    // an instance, a revision
  nlohmann::json detail;  // the whole action
  Reason reason;
  std::string fault;  // why it could not be carried out; empty: it was ordered
};

struct StoredInstance {
  Instance instance;
  std::string boot_id;
  int64_t pid = 0;
  uint64_t start_time = 0;

  bool operator==(const StoredInstance&) const = default;
};

struct RateSample {
  FunctionName function;
  int64_t second = 0;  // since 1970
  double rate = 0;     // requests
  int queued = 0, in_flight = 0;
  uint64_t violations = 0;

  bool operator==(const RateSample&) const = default;
};

struct ArrivalHour {
  FunctionName function;
  int64_t hour = 0;  // since 1970
  ArrivalHistory::Hour arrivals{};

  bool operator==(const ArrivalHour&) const = default;
};

using Accounts = std::map<std::string, nlohmann::json>;  // objects, by key

// The changes since the last entry.
struct JournalEntry {
  std::vector<Decision> decisions;
  std::vector<RateSample> rates;
  // Replaces the record of these hours. A function has its newest hour here once a minute, if it
  // had arrivals in that minute: some 200 bytes in SQLite, 660 at most. 14 days of 1,000 busy
  // functions take less than 100 MB there.
  std::vector<ArrivalHour> arrivals;
  // Counters and policies' memories. A key is a function's name, alone or with a space and a word
  // behind it, or that of something else with a space in it, or empty.
  Accounts accounts;
  std::vector<StoredInstance> instances;  // new and changed ones
  std::vector<InstanceId> ended;

  bool empty() const {
    return decisions.empty() && rates.empty() && arrivals.empty() && accounts.empty() &&
           instances.empty() && ended.empty();
  }
};

class Journal {
 public:
  virtual ~Journal() = default;

  // Writes all of it, or nothing. Numbers its decisions.
  virtual Result<void> write(JournalEntry& entry) = 0;
  // Forgets a function's accounts, rates and arrivals.
  virtual Result<void> forget(const FunctionName& f) = 0;

  // Returns the newest first, at most `limit`; of all functions or of one.
  virtual Result<std::vector<Decision>> decisions(const std::optional<FunctionName>& f,
                                                  int limit) = 0;
  // Returns the newest notice (actions notice, drain, undrain) of each subject.
  virtual Result<std::map<std::string, Reason>> notices() = 0;
  // Keeps an hour. A second without a sample had no requests.
  virtual Result<std::vector<RateSample>> rates(const FunctionName& f, int64_t since_second) = 0;
  // By hour. Keeps the last ArrivalHistory::kHours, counted from a function's newest.
  virtual Result<std::vector<ArrivalHour>> arrivals(const FunctionName& f) = 0;
  virtual Result<Accounts> accounts() = 0;
  virtual Result<std::vector<StoredInstance>> instances() = 0;  // by id
};

}  // namespace sluice::control
