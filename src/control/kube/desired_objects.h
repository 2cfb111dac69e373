// The desired state on the API server: revisions are FunctionRevision objects, which one serves is
// in the status of its function's object. Read once, at the loop's start; from then on the loop
// alone writes it. Measurements are objects too (profile_objects.h).
//
// One thread, the loop's, while another runs the client's io_context.
#pragma once

#include <map>

#include "control/desired_memory.h"
#include "control/kube/object_writer.h"
#include "control/kube/objects.h"
#include "control/kube/profile_objects.h"
#include "kube/informer.h"

namespace sluice::control {

class DesiredObjects : public DesiredState {
 public:
  // `functions`: users' objects, complete by now. A new revision is written before add_revision()
  // returns; all else by `writer`, as soon as the API server answers.
  DesiredObjects(kube::Client& client, const kube::Informer<FunctionObject>& functions,
                 ObjectWriter& writer, ProfileObjects& profiles)
      : client_(client), functions_(functions), writer_(writer), profiles_(profiles) {}

  Result<std::vector<StoredFunction>> functions() override;
  std::vector<StoredFunction> changes() override { return {}; }
  Result<void> add_revision(const Revision& revision, int serving) override;
  Result<void> replace_spec(const Revision& revision) override;
  Result<void> forget_revisions(const FunctionName& f, int oldest, int serving) override;
  Result<void> set_revisions(const FunctionName& f, int newest, int serving,
                             const ServingHistory& served) override;
  Result<void> remove_function(const FunctionName& f) override;
  Result<void> save_profile(const Profile& profile) override {
    profiles_.save(profile);
    return {};
  }
  Result<Profiles> profiles() override { return profiles_.read(); }
  // Its parts are not undone: the first write of an apply is add_revision().
  Result<void> transaction(const std::function<Result<void>()>& work) override { return work(); }

 private:
  std::shared_ptr<const FunctionObject> object_of(const FunctionName& f) const {
    return functions_.find({f.space, f.name});
  }
  void write_progress(const StoredFunction& f);
  void remove_object(const Revision& revision);

  kube::Client& client_;
  const kube::Informer<FunctionObject>& functions_;
  ObjectWriter& writer_;
  ProfileObjects& profiles_;
  std::map<FunctionName, StoredFunction> kept_;
};

}  // namespace sluice::control
