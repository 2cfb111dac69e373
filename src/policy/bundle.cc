#include "policy/bundle.h"

#include "base/check.h"
#include "policy/scale_exclusive.h"
#include "policy/scale_fixed.h"
#include "policy/scale_has_gpu.h"

namespace sluice::policy {
namespace {

// A burst of five seconds is over before ten have been averaged; and measurements that overlap
// would be news twice.
constexpr Cadence kQuick{
    .rate_window = Millis(500), .measure_every = Millis(500), .decide_every = Millis(250)};
// HAS-GPU's published code: a rate over ten seconds, looked at every two.
constexpr Cadence kPublished{
    .rate_window = Seconds(10), .measure_every = Seconds(2), .decide_every = Seconds(2)};

// A queue that is 90 % busy waits; a batch that takes the whole objective leaves no time to wait.
constexpr HasGpuSettings kOurs{.alpha = 0.7,
                               .slo_fraction = 0.5,
                               .borrow = true,
                               .work_off = true,
                               .slack = 0.02,
                               .outlast_starts = true};

}  // namespace

std::span<const Bundle> bundles() {
  static const Bundle kBundles[] = {
      {.name = "has-gpu",
       .summary = "quotas first, then instances on used and on new devices (HAS-GPU, our settings)",
       .scale = scale_has_gpu,
       .settings = Settings(kOurs),
       .forecast = "kalman",
       .arbiter = "planned",
       .cadence = kQuick},
      {.name = "has-gpu-paper",
       .summary = "the same with the settings of the published code",
       .scale = scale_has_gpu,
       .settings = Settings(HasGpuSettings{}),
       .forecast = "kalman-paper",
       .arbiter = "window",
       .cadence = kPublished},
      {.name = "fixed",
       .summary = "the slice in the function's file, never changed",
       .scale = scale_fixed,
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kQuick},
      {.name = "exclusive",
       .summary = "a whole device per instance, scaled out by concurrency; reaches zero",
       .scale = scale_exclusive,
       .settings = Settings(ExclusiveSettings{}),
       .forecast = "last",
       .arbiter = "planned",
       .cadence = kQuick,
       .reaches_zero = true,
       .by_concurrency = true},
  };
  return kBundles;
}

const Bundle* find_bundle(std::string_view name) {
  for (const Bundle& bundle : bundles()) {
    if (bundle.name == name) return &bundle;
  }
  return nullptr;
}

const Bundle& bundle_of(const FunctionSpec& spec, std::string_view platform) {
  const Bundle* named = find_bundle(spec.policy);
  if (named == nullptr) named = find_bundle(platform);
  SLUICE_CHECK(named != nullptr, platform);
  return *named;
}

}  // namespace sluice::policy
