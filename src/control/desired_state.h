// The desired state: users' functions, and the loop's progress with them. One of the loop's
// ports. SQLite keeps it on this machine (store.h); an adapter in memory serves tests.
//
// One thread, the loop's. A change that fails changed nothing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/profiles.h"
#include "control/serving_history.h"
#include "model/function.h"

namespace sluice::control {

struct StoredFunction {
  FunctionName name;
  int newest = 0;                   // the revision that is to serve
  int serving = 0;                  // the one that serves until the newest is ready; then the same
  std::vector<Revision> revisions;  // ascending
  bool complete = true;             // every stored revision could be read
  ServingHistory served;
  int last = 0;  // the largest number of a stored revision, readable or not
};

class DesiredState {
 public:
  virtual ~DesiredState() = default;

  // Returns them by name. An unreadable row stops nothing else: the log names it. A function
  // without a readable revision has none here.
  virtual Result<std::vector<StoredFunction>> functions() = 0;
  // Returns changes by others than this loop since the last call: functions as they are now,
  // deleted ones without revisions. Each tick begins with it.
  virtual std::vector<StoredFunction> changes() = 0;
  // Adds the newest revision. The serving history stays.
  virtual Result<void> add_revision(const Revision& revision, int serving) = 0;
  virtual Result<void> replace_spec(const Revision& revision) = 0;  // of an existing revision
  // Removes those before `oldest`, except the serving one.
  virtual Result<void> forget_revisions(const FunctionName& f, int oldest, int serving) = 0;
  // Also reports the loop's progress of a rollout.
  virtual Result<void> set_revisions(const FunctionName& f, int newest, int serving,
                                     const ServingHistory& served) = 0;
  virtual Result<void> remove_function(const FunctionName& f) = 0;

  // Measurements, by the model's path.
  virtual Result<void> save_profile(const Profile& profile) = 0;  // replaces as Profiles::set()
  virtual Result<Profiles> profiles() = 0;

  // Makes all changes of `work`, or none.
  virtual Result<void> transaction(const std::function<Result<void>()>& work) = 0;
};

}  // namespace sluice::control
