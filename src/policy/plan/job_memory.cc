#include "policy/plan/job_memory.h"

#include <string_view>

namespace sluice::policy {
namespace {

// Keys of the memory begin with one of these.
constexpr std::string_view kChanged = "changed ", kSlow = "slow ", kNeeded = "needed ";

std::string key(std::string_view kind, const std::string& of) {
  return std::string(kind) + of;
}

}  // namespace

JobMemory::JobMemory(Input& input, Nanos calm) : input_(input) {
  std::erase_if(input.memory.numbers, [&](const auto& entry) {
    const std::string_view name = entry.first;
    const Nanos ago = since(entry.second);
    if (ago < Nanos(0)) return true;
    if (name.starts_with(kChanged))
      return !input.index.function(function_name(std::string(name.substr(kChanged.size()))));
    if (name.starts_with(kSlow)) return !input.index.instance(name.substr(kSlow.size()));
    return ago >= calm;
  });
}

std::vector<double> JobMemory::now() const {
  return {input_.now()};
}

Nanos JobMemory::since(const std::vector<double>& at) const {
  return !at.empty() ? input_.snapshot.now.time_since_epoch() - from_seconds(at[0]) : Nanos(-1);
}

void JobMemory::note_change(const FunctionName& job) {
  std::vector<double>& noted = input_.memory.numbers[key(kChanged, to_string(job))];
  noted = {input_.now(), noted.size() == 2 ? noted[1] + 1 : 1};
}

int JobMemory::changes(const FunctionName& job) const {
  const auto noted = input_.memory.numbers.find(key(kChanged, to_string(job)));
  return noted != input_.memory.numbers.end() && noted->second.size() == 2
             ? static_cast<int>(noted->second[1])
             : 0;
}

bool JobMemory::changed_within(const FunctionName& job, Nanos calm) const {
  const auto at = input_.memory.numbers.find(key(kChanged, to_string(job)));
  return at != input_.memory.numbers.end() && since(at->second) < calm;
}

Nanos JobMemory::slow_for(const InstanceId& worker, bool slow) {
  const std::string name = key(kSlow, worker);
  if (!slow) return input_.memory.numbers.erase(name), Nanos(0);
  const auto [at, added] = input_.memory.numbers.try_emplace(name, now());
  return since(at->second);
}

void JobMemory::note_need(const DeviceId& device) {
  input_.memory.numbers[key(kNeeded, device)] = now();
}

std::vector<DeviceId> JobMemory::needed() const {
  std::vector<DeviceId> devices;
  for (const auto& [name, at] : input_.memory.numbers)
    if (name.starts_with(kNeeded)) devices.push_back(name.substr(kNeeded.size()));
  return devices;
}

}  // namespace sluice::policy
