#include "sim/scenario_faults.h"

#include <algorithm>

#include "base/words.h"
#include "control/spec/function_file.h"

namespace sluice::sim {
namespace {

using control::Fields;

constexpr size_t kMostFaults = 1000;
// By FaultKind::Subject.
constexpr std::string_view kSubjects[] = {"a function below, or a job to kill",
                                          "a device's id, such as gpu-n0000/00",
                                          "a node, such as gpu-n0000",
                                          "a node, or gateway",
                                          "gateway",
                                          "forward and back"};

// The names that a fault of the kind may have.
std::vector<std::string> subjects_of(const FaultKind& kind, const Scenario& s) {
  using Subject = FaultKind::Subject;
  std::vector<std::string> names;
  if (kind.subject == Subject::kFunction)
    for (const FunctionSpec& spec : s.functions) names.push_back(served_name(spec.name));
  if (kind.kind == Fault::Kind::kKill)
    for (const ScenarioJob& job : s.jobs) names.push_back(served_name(job.spec.name));
  if (kind.subject == Subject::kDirection) names = {"forward", "back"};
  if (kind.subject == Subject::kGateway || kind.subject == Subject::kNodeOrGateway)
    names.emplace_back(kGateway);
  for (const DevicePlan& d : s.cluster.devices)
    if (kind.subject == Subject::kDevice)
      names.push_back(d.device.id);
    else if (kind.subject == Subject::kNode || kind.subject == Subject::kNodeOrGateway)
      names.push_back(d.device.node);
  return names;
}

void read_fault(Fields& f, Scenario& out) {
  std::vector<std::string> keys;
  const FaultKind* kind = nullptr;
  int named = 0;
  for (const FaultKind& k : fault_kinds()) {
    keys.emplace_back(k.key);
    if (!f.has(k.key)) continue;
    kind = &k;
    ++named;
  }
  f.need("at", "when it happens, such as 40s");
  Fault t;
  f.duration("at", t.at, Nanos(0), kLongest);
  if (named != 1) {
    for (const std::string& key : keys) f.take(key);
    for (const char* key : {"lasts", "by", "times"}) f.take(key);
    return f.complain(
        "at", "a fault has one of " + listed(keys, 20) + "; this one has " + std::to_string(named));
  }
  if (out.faults.size() > kMostFaults) return;
  const std::string key(kind->key);
  t.kind = kind->kind;
  t.subject = read_word(f, key);
  using Lasts = FaultKind::Lasts;
  const auto belongs = [&](const char* field, bool may, bool must, std::string_view what) {
    if (must) f.need(field, what);
    if (!may && f.has(field)) f.complain(field, "does not go with " + key);
  };
  belongs("lasts", kind->lasts != Lasts::kNo, kind->lasts == Lasts::kMust, "when it ends after at");
  belongs("by", kind->by, kind->by, "a duration such as 3s");
  belongs("times", kind->times, kind->times, "a factor such as 2");
  f.duration("lasts", t.lasts, Millis(1), kLongest);
  f.duration("by", t.by, Millis(1), kLongest);
  f.number("times", t.times, 0.01, 100);
  const std::vector<std::string> subjects = subjects_of(*kind, out);
  if (kind->subject == FaultKind::Subject::kFunction)
    t.subject = served_name(function_name(t.subject));
  if (std::ranges::count(subjects, t.subject) == 0)
    f.complain(key, "\"" + t.subject + "\" is not of this scenario" +
                        control::did_you_mean(t.subject, subjects) +
                        " Allowed: " + std::string(kSubjects[static_cast<size_t>(kind->subject)]));
  out.faults.push_back(std::move(t));
}

}  // namespace

void read_faults(const ScenarioPart& spec, Scenario& out) {
  read_each(spec, "faults", 0, [&](Fields& f) { read_fault(f, out); });
  if (out.faults.size() > kMostFaults)
    spec.fields.complain("faults", "there are more than " + std::to_string(kMostFaults));
}

}  // namespace sluice::sim
