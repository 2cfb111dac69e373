#include "arbiters/arbiter.h"

#include <algorithm>
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
  bool on_cpus = true;  // GPUs can run all of them
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

// "a, b, c".
std::string text_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::vector<std::string> arbiter_names() {
  return arbiter_names(DeviceKind::kCuda);
}

std::vector<std::string> arbiter_names(DeviceKind kind) {
  std::vector<std::string> names;
  for (const auto& arbiter : kArbiters)
    if (arbiter.on_cpus || kind == DeviceKind::kCuda) names.emplace_back(arbiter.name);
  return names;
}

Result<void> check_arbiter(std::string_view name, DeviceKind kind) {
  const std::vector<std::string> allowed = arbiter_names(kind);
  if (std::ranges::find(allowed, name) != allowed.end()) return {};
  return Error{ErrorKind::kInvalid, "arbiter: '" + std::string(name) + "' is none of " +
                                        text_of(allowed) + ", which a " +
                                        (kind == DeviceKind::kCuda ? "GPU" : "CPU") + " can run"};
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
  for (const auto& arbiter : kArbiters)
    if (arbiter.name == name) return arbiter.make(config);
  return Error{ErrorKind::kInvalid,
               "arbiter: \"" + std::string(name) + "\" is none of " + text_of(arbiter_names())};
}

}  // namespace sluice::policy
