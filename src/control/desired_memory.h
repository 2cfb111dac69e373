// The desired state in memory, for tests and simulations. One thread.
#pragma once

#include <utility>

#include "control/desired_state.h"

namespace sluice::control {

class MemoryDesiredState : public DesiredState {
 public:
  Result<std::vector<StoredFunction>> functions() override;
  std::vector<StoredFunction> changes() override { return std::exchange(changes_, {}); }
  Result<void> add_revision(const Revision& revision, int serving) override;
  Result<void> replace_spec(const Revision& revision) override;
  Result<void> forget_revisions(const FunctionName& f, int oldest, int serving) override;
  Result<void> set_revisions(const FunctionName& f, int newest, int serving,
                             const ServingHistory& served) override;
  Result<void> remove_function(const FunctionName& f) override;
  Result<void> save_profile(const Profile& profile) override;
  Result<Profiles> profiles() override { return profiles_; }
  Result<void> transaction(const std::function<Result<void>()>& work) override;

  // Applies another writer's change; without revisions it removes the function.
  void change(const StoredFunction& f);

  bool full = false;  // from now on changes fail

 private:
  Result<void> writable() const;

  std::map<FunctionName, StoredFunction> functions_;
  Profiles profiles_;
  std::vector<StoredFunction> changes_;
};

}  // namespace sluice::control
