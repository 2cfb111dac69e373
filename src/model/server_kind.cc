#include "model/server_kind.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace sluice {
namespace {

constexpr ServerKind kKinds[] = {
    {.name = "torchscript",
     .platform = "pytorch_torchscript",
     .computes_on = [](const Device& d) { return d.kind == DeviceKind::kCpu; },
     .birth = [](const ModelSpec& model, const Batching& batching) -> Birth {
       return ForkOfTemplate{model, batching};
     }},
};

}  // namespace

std::span<const ServerKind> server_kinds() {
  return kKinds;
}

const ServerKind* find_server_kind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &ServerKind::name);
  return found != std::end(kKinds) ? found : nullptr;
}

const ServerKind& kind_of(const ModelSpec& model) {
  const ServerKind* kind = find_server_kind(model.format);
  SLUICE_CHECK(kind != nullptr, model.format);
  return *kind;
}

std::string names_of_server_kinds() {
  std::string all;
  for (const ServerKind& k : kKinds) all += (all.empty() ? "" : ", ") + std::string(k.name);
  return std::size(kKinds) == 1 ? all : "one of " + all;
}

bool serves(const Device& device) {
  return std::ranges::any_of(kKinds, [&](const ServerKind& k) { return k.computes_on(device); });
}

}  // namespace sluice
