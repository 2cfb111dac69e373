#include "control/function_state.h"

#include <algorithm>

namespace sluice::control {

const ObservedAnswers* answers_of(const FunctionState& f, const InstanceId& id) {
  const auto found = std::ranges::lower_bound(f.answers, id, {}, &ObservedAnswers::instance);
  return found != f.answers.end() && found->instance == id ? &*found : nullptr;
}

void note_presence(Functions& functions, const std::vector<ObservedInstance>& seen,
                   const std::map<InstanceId, Instance>& ordered) {
  for (auto& [name, f] : functions) f.present = {};
  FunctionFinder finder(functions);
  for (const ObservedInstance& o : seen) {
    FunctionState* f = finder.find(o.instance.function);
    if (f == nullptr) continue;
    const bool newest = o.instance.revision == f->stored.newest;
    f->present.alive |= control::alive(o);
    f->present.newest_ready |= newest && o.instance.state == InstanceState::kReady;
    f->present.serving_ready |=
        o.instance.revision == f->stored.serving && o.instance.state == InstanceState::kReady;
    f->present.newest_starts |= newest && o.instance.state == InstanceState::kStarting;
    f->present.longest_start_ms = std::max(f->present.longest_start_ms, o.ready_after_ms);
  }
  for (const auto& [id, instance] : ordered) {
    FunctionState* f = finder.find(instance.function);
    if (f == nullptr) continue;
    f->present.alive = true;
    f->present.newest_starts |= instance.revision == f->stored.newest;
  }
}

}  // namespace sluice::control
