#include "control/desired_memory.h"

#include <algorithm>

namespace sluice::control {

Result<void> MemoryDesiredState::writable() const {
  if (full) return Error{ErrorKind::kInternal, "the desired state is full"};
  return {};
}

Result<std::vector<StoredFunction>> MemoryDesiredState::functions() {
  std::vector<StoredFunction> all;
  for (const auto& [name, f] : functions_) all.push_back(f);
  return all;
}

void MemoryDesiredState::change(const StoredFunction& f) {
  if (f.revisions.empty())
    functions_.erase(f.name);
  else
    functions_[f.name] = f;
  changes_.push_back(f);
}

Result<void> MemoryDesiredState::add_revision(const Revision& revision, int serving) {
  SLUICE_TRY(writable());
  StoredFunction& f = functions_[revision.function];
  f.name = revision.function;
  f.newest = revision.number;
  f.serving = serving;
  std::erase_if(f.revisions, [&](const Revision& r) { return r.number == revision.number; });
  f.revisions.push_back(revision);
  std::ranges::sort(f.revisions, {}, &Revision::number);
  f.last = f.revisions.back().number;
  return {};
}

Result<void> MemoryDesiredState::replace_spec(const Revision& revision) {
  SLUICE_TRY(writable());
  if (const auto f = functions_.find(revision.function); f != functions_.end())
    for (Revision& r : f->second.revisions)
      if (r.number == revision.number) r.spec = revision.spec;
  return {};
}

Result<void> MemoryDesiredState::forget_revisions(const FunctionName& f, int oldest, int serving) {
  SLUICE_TRY(writable());
  if (const auto found = functions_.find(f); found != functions_.end())
    std::erase_if(found->second.revisions,
                  [&](const Revision& r) { return r.number < oldest && r.number != serving; });
  return {};
}

Result<void> MemoryDesiredState::set_revisions(const FunctionName& f, int newest, int serving,
                                               const ServingHistory& served) {
  SLUICE_TRY(writable());
  if (const auto found = functions_.find(f); found != functions_.end()) {
    found->second.newest = newest;
    found->second.serving = serving;
    found->second.served = served;
  }
  return {};
}

Result<void> MemoryDesiredState::remove_function(const FunctionName& f) {
  SLUICE_TRY(writable());
  functions_.erase(f);
  return {};
}

Result<void> MemoryDesiredState::save_profile(const Profile& profile) {
  SLUICE_TRY(writable());
  profiles_.set(profile);
  return {};
}

Result<void> MemoryDesiredState::transaction(const std::function<Result<void>()>& work) {
  const auto functions = functions_;
  const auto profiles = profiles_;
  Result<void> outcome = work();
  if (!outcome.ok()) {
    functions_ = functions;
    profiles_ = profiles;
  }
  return outcome;
}

}  // namespace sluice::control
