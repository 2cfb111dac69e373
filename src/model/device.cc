#include "model/device.h"

#include <algorithm>

namespace sluice {
namespace {

// A simulated device serves functions as a CPU does and has no size: it is of its model's type.
bool is_of_its_size(const Device& d) {
  return d.kind == DeviceKind::kCpu && (d.millicores > 0 || d.model.empty()) && d.type_name.empty();
}

}  // namespace

DeviceType type_of(const Device& d) {
  if (is_of_its_size(d)) return {"cpu/" + std::to_string(d.millicores) + "m"};
  if (!d.type_name.empty()) return {d.type_name};
  return {d.model.empty() ? "cuda" : d.model};
}

bool alike(const Device& a, const Device& b) {
  if (a.kind != b.kind || a.window != b.window || a.type_name != b.type_name) return false;
  if (is_of_its_size(a) != is_of_its_size(b)) return false;
  return is_of_its_size(a) ? a.millicores == b.millicores : a.model == b.model;
}

double price_of(const Device& d, Share share) {
  return (d.price_per_hour > 0 ? d.price_per_hour : 1) * share.fraction();
}

std::vector<const Device*> one_of_each_type(std::span<const Device> devices) {
  std::vector<const Device*> found;
  for (const Device& d : devices)
    if (std::ranges::none_of(found, [&](const Device* other) { return alike(*other, d); }))
      found.push_back(&d);
  return found;
}

}  // namespace sluice
