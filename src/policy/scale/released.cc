#include "policy/scale/released.h"

#include <algorithm>
#include <string>

#include "policy/place/place_rectangles.h"

namespace sluice::policy {
namespace {

constexpr size_t kNumbers = 4;  // of a rectangle

Rectangle read_rectangle(const std::vector<double>& numbers, size_t at) {
  const auto share = [&](size_t k) { return Share{static_cast<int>(numbers[at + k])}; };
  return {share(0), share(1), share(2), share(3)};
}

void write_rectangle(const Rectangle& r, std::vector<double>& numbers) {
  for (const Share s : {r.sm_begin, r.sm, r.time_begin, r.time}) numbers.push_back(s.permille);
}

Rectangle held_by(const Instance& i) {
  return {i.position().sm_begin, i.slice().sm, i.position().time_begin, i.slice().quota.request};
}

bool used_anew(const Rectangle& r, uint32_t device, const Input& input) {
  const auto on = input.index.on_device(device);
  return std::any_of(on.begin(), on.end(), [&](uint32_t k) {
    const Instance& i = input.snapshot.instances[k];
    return i.state != InstanceState::kDraining && overlap(held_by(i), r);
  });
}

}  // namespace

void Released::offer() {
  auto& memory = input_.memory.numbers;
  for (auto entry = memory.begin(); entry != memory.end();) {
    const auto device = input_.index.device(entry->first);
    std::vector<double> still;
    for (size_t at = 0; device && at + kNumbers <= entry->second.size(); at += kNumbers) {
      const Rectangle r = read_rectangle(entry->second, at);
      if (used_anew(r, *device, input_)) continue;
      write_rectangle(r, still);
      auto* layout = dynamic_cast<Rectangles*>(&plan_.layouts()[*device]);
      if (layout != nullptr) layout->offer_again(r);
    }
    entry->second = std::move(still);
    const bool forget =
        entry->second.empty() || entry->second.size() > kNumbers * Rectangles::kMostFree;
    entry = forget ? memory.erase(entry) : std::next(entry);
  }
}

void Released::add(const PlannedInstance& stopped) {
  if (stopped.before == nullptr) return;
  write_rectangle(held_by(*stopped.before), input_.memory.numbers[stopped.instance.device()]);
}

}  // namespace sluice::policy
