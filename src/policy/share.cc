#include "policy/share.h"

#include <string>

#include "base/check.h"
#include "policy/share_multi_token.h"
#include "policy/share_planned.h"
#include "policy/share_window.h"

namespace sluice::policy {
namespace {

using Make = std::unique_ptr<Arbiter> (*)(const ArbiterConfig&);

template <class A>
std::unique_ptr<Arbiter> make(const ArbiterConfig& config) {
  return std::make_unique<A>(config);
}

constexpr struct {
  std::string_view name;
  Make make;
} kArbiters[] = {
    {"planned", make<PlannedArbiter>},
    {"window", make<WindowArbiter>},
    {"multi_token", make<MultiTokenArbiter>},
};

}  // namespace

Result<std::unique_ptr<Arbiter>> make_arbiter(std::string_view name, const ArbiterConfig& config) {
  if (config.window < Millis(2) || config.drain_bound < config.window) {
    return Error{ErrorKind::kInvalid, "arbiter: window " + std::to_string(millis(config.window)) +
                                          " ms must be at least 2 ms, drain_bound " +
                                          std::to_string(millis(config.drain_bound)) +
                                          " ms at least the window"};
  }
  SLUICE_CHECK(config.pace >= 1000, "nobody is slower than the device that it holds");
  std::string names;
  for (const auto& [known, make] : kArbiters) {
    if (known == name) return make(config);
    names += (names.empty() ? "" : ", ") + std::string(known);
  }
  return Error{ErrorKind::kInvalid, "arbiter: \"" + std::string(name) + "\" is none of " + names};
}

}  // namespace sluice::policy
