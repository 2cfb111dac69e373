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
constexpr ScaleConfig kOurs{.alpha = 0.7,
                            .slo_fraction = 0.5,
                            .borrow = true,
                            .work_off = true,
                            .slack = 0.02,
                            .outlast_starts = true};

}  // namespace

std::span<const Bundle> bundles() {
  static constexpr Bundle kBundles[] = {
      {"has-gpu", "quotas first, then instances on used and on new devices (HAS-GPU, our settings)",
       scale_has_gpu, "kalman", "planned", kQuick, kOurs},
      {"has-gpu-paper",
       "the same with the settings of the published code",
       scale_has_gpu,
       "kalman-paper",
       "window",
       kPublished,
       {}},
      {"fixed",
       "the slice in the function's file, never changed",
       scale_fixed,
       "last",
       "planned",
       kQuick,
       {}},
      {"exclusive",
       "a whole device per instance, scaled out by concurrency; reaches zero",
       scale_exclusive,
       "last",
       "planned",
       kQuick,
       {},
       /*reaches_zero=*/true,
       /*by_concurrency=*/true},
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
