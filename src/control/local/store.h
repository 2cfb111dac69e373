// The store: the desired state and the journal of this machine, in one SQLite file with a schema
// version. Acknowledged changes survive kill -9. One thread, the loop's.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/desired_state.h"
#include "control/journal.h"
#include "control/local/database.h"

namespace sluice::control {

class Store : public DesiredState, public Journal {
 public:
  // Migrates an older schema. Refuses a newer one, a file that is no store of ours, and an emptied
  // file. A refusal changes nothing.
  static Result<Store> open(const std::string& path);

  // Opens it for reads alone; the platform may run. Refuses another schema than the newest.
  static Result<Store> open_read_only(const std::string& path);

  // ---- the desired state -----------------------------------------------------------------------
  // A row that cannot be read stays in the file.
  Result<std::vector<StoredFunction>> functions() override;
  // Returns none: only the loop writes the file.
  std::vector<StoredFunction> changes() override { return {}; }
  Result<void> add_revision(const Revision& revision, int serving) override;
  Result<void> replace_spec(const Revision& revision) override;
  Result<void> forget_revisions(const FunctionName& f, int oldest, int serving) override;
  Result<void> set_revisions(const FunctionName& f, int newest, int serving,
                             const ServingHistory& served) override;
  Result<void> remove_function(const FunctionName& f) override;
  Result<void> save_profile(const Profile& profile) override;
  Result<Profiles> profiles() override;
  Result<void> transaction(const std::function<Result<void>()>& work) override {
    return db_.transaction(work);
  }

  // ---- the journal -----------------------------------------------------------------------------
  Result<void> write(JournalEntry& entry) override;
  Result<void> forget(const FunctionName& f) override;
  Result<std::vector<Decision>> decisions(const std::optional<FunctionName>& f, int limit) override;
  Result<std::map<std::string, Reason>> notices() override;
  Result<std::vector<RateSample>> rates(const FunctionName& f, int64_t since_second) override;
  Result<std::vector<ArrivalHour>> arrivals(const FunctionName& f) override;
  Result<Accounts> accounts() override;
  Result<std::vector<StoredInstance>> instances() override;

 private:
  explicit Store(Database db) : db_(std::move(db)) {}
  Result<int64_t> version();
  Result<void> migrate();
  Result<void> add_decision(Decision& d);
  Result<void> add_rates(const std::vector<RateSample>& samples);
  Result<void> add_arrivals(const std::vector<ArrivalHour>& hours);
  Database db_;
};

}  // namespace sluice::control
