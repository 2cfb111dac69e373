// The store: what the control loop must not forget. SQLite with a schema version; what was
// acknowledged survives kill -9. One thread, the loop's.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "control/database.h"
#include "model/action.h"
#include "model/function.h"
#include "predict/profile_table.h"

namespace sluice::control {

struct StoredFunction {
  FunctionName name;
  int newest = 0;   // the revision that shall serve
  int serving = 0;  // the one that serves until the newest is ready; the same when it is
  std::vector<Revision> revisions;  // ascending
  bool complete = true;             // every revision in the file could be read
};

// A decision, with what came of it.
struct Decision {
  int64_t number = 0;
  UnixMillis at = 0;
  FunctionName function;
  std::string action;     // "start", "stop", "resize", "unmet", "rollout", …
  std::string subject;    // an instance, a revision
  nlohmann::json detail;  // the whole action
  Reason reason;
  std::string fault;  // why it could not be carried out; empty: it was asked for
};

struct StoredInstance {
  Instance instance;
  std::string boot_id;
  int64_t pid = 0;
  uint64_t start_time = 0;
};

struct RateSample {
  FunctionName function;
  int64_t second = 0;  // since 1970
  double rate = 0;     // requests
  int queued = 0, in_flight = 0;
  uint64_t violations = 0;
};

class Store {
 public:
  // Migrates an older schema; refuses a newer one, what is no store of ours, and a file that was
  // emptied. Refusing changes nothing.
  static Result<Store> open(const std::string& path);

  // A row that cannot be read stays in the file and stops no other: the log says what is missing.
  // A function none of whose revisions can be read has none here.
  Result<std::vector<StoredFunction>> functions();
  Result<void> add_revision(const Revision& revision, int serving);
  Result<void> replace_spec(const Revision& revision);  // of a revision that is there
  // Those before `oldest`, but for the serving one.
  Result<void> forget_revisions(const FunctionName& f, int oldest, int serving);
  Result<void> set_revisions(const FunctionName& f, int newest, int serving);
  Result<void> remove_function(const FunctionName& f);

  Result<void> save_instances(const std::vector<StoredInstance>& instances);
  Result<std::vector<StoredInstance>> instances();

  Result<int64_t> add_decision(const Decision& d);
  Result<std::vector<Decision>> decisions(const std::optional<FunctionName>& f, int limit);
  // Of the newest decision about it; empty: there is none.
  Result<Reason> last_reason(const std::string& subject);

  Result<void> save_profile(const std::string& model_path, const predict::Profile& profile);
  Result<std::map<std::string, predict::Profile>> profiles();  // by model path

  // A key is a function's name, alone or with a space and a word behind it, or empty.
  Result<void> save_account(const std::string& key, const nlohmann::json& account);
  Result<std::map<std::string, nlohmann::json>> accounts();

  // Keeps an hour. A second without a sample is one in which nothing was asked for.
  Result<void> add_rates(const std::vector<RateSample>& samples);
  Result<std::vector<RateSample>> rates(const FunctionName& f, int64_t since_second);

  // What belongs together, at once.
  Result<void> transaction(const std::function<Result<void>()>& work) {
    return db_.transaction(work);
  }

 private:
  explicit Store(Database db) : db_(std::move(db)) {}
  Result<void> migrate();
  Database db_;
};

nlohmann::json to_json(const predict::Profile& p);
Result<predict::Profile> profile_from(const nlohmann::json& j);

}  // namespace sluice::control
