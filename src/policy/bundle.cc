#include "policy/bundle.h"

#include "policy/scale_exclusive.h"
#include "policy/scale_fixed.h"
#include "policy/scale_has_gpu.h"

namespace sluice::policy {

std::span<const Bundle> bundles() {
  static constexpr Bundle kBundles[] = {
      {"has-gpu", "quotas first, then instances on used and on new devices (HAS-GPU)",
       scale_has_gpu, "kalman", "window"},
      {"fixed", "the slice in the function's file, never changed", scale_fixed, "last", "planned"},
      {"exclusive", "a whole device per instance, scaled out by concurrency", scale_exclusive,
       "last", "planned"},
  };
  return kBundles;
}

const Bundle* find_bundle(std::string_view name) {
  for (const Bundle& bundle : bundles()) {
    if (bundle.name == name) return &bundle;
  }
  return nullptr;
}

}  // namespace sluice::policy
