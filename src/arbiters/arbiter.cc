#include "arbiters/arbiter.h"

#include <string>

#include "arbiters/deadline.h"
#include "arbiters/fixed.h"
#include "arbiters/introspective.h"
#include "arbiters/multi_token.h"
#include "arbiters/planned.h"
#include "arbiters/shares.h"
#include "arbiters/tgs.h"
#include "arbiters/window.h"
#include "base/check.h"

namespace sluice::policy {
namespace {

using Make = std::unique_ptr<Arbiter> (*)(const ArbiterConfig&);

template <class A>
std::unique_ptr<Arbiter> make(const ArbiterConfig& config) {
  return std::make_unique<A>(config);
}

template <FixedArbiter::Kind kKind>
std::unique_ptr<Arbiter> make_fixed(const ArbiterConfig& config) {
  return std::make_unique<FixedArbiter>(kKind, config);
}

constexpr struct {
  std::string_view name;
  Make make;
  Nanos window = ArbiterConfig().window;
  bool hands_out_permits = true;
} kArbiters[] = {
    {"planned", make<PlannedArbiter>},
    {"deadline", make<DeadlineArbiter>},
    {"window", make<WindowArbiter>},
    {"multi_token", make<MultiTokenArbiter>},
    {"introspective", make<IntrospectiveArbiter>, IntrospectiveArbiter::kWindow},
    {"share_fixed_limit", make_fixed<FixedArbiter::Kind::kLimit>},
    {"share_fixed_request", make_fixed<FixedArbiter::Kind::kRequest>},
    {"tgs", make<TgsArbiter>},
    {"shares", make<SharesArbiter>, ArbiterConfig().window, false},
};

}  // namespace

std::vector<std::string> arbiter_names() {
  std::vector<std::string> names;
  for (const auto& arbiter : kArbiters)
    if (arbiter.hands_out_permits) names.emplace_back(arbiter.name);
  return names;
}

Nanos window_of(std::string_view name) {
  for (const auto& arbiter : kArbiters)
    if (arbiter.name == name) return arbiter.window;
  return ArbiterConfig().window;
}

Result<std::unique_ptr<Arbiter>> make_arbiter(std::string_view name, const ArbiterConfig& config) {
  if (config.window < Millis(2) || config.drain_bound < config.window) {
    return Error{ErrorKind::kInvalid, "arbiter: window " + std::to_string(millis(config.window)) +
                                          " ms must be at least 2 ms, drain_bound " +
                                          std::to_string(millis(config.drain_bound)) +
                                          " ms at least the window"};
  }
  SLUICE_CHECK(config.pace >= 1000, "no client is slower than the device that it holds");
  std::string names;
  for (const auto& arbiter : kArbiters) {
    if (arbiter.name == name) return arbiter.make(config);
    if (!arbiter.hands_out_permits) continue;
    names += (names.empty() ? "" : ", ") + std::string(arbiter.name);
  }
  return Error{ErrorKind::kInvalid, "arbiter: \"" + std::string(name) + "\" is none of " + names};
}

}  // namespace sluice::policy
