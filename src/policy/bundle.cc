#include "policy/bundle.h"

#include "base/check.h"

namespace sluice::policy {

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

const Plan& plan_of(const FunctionSpec& spec, std::string_view platform, const Bundle& bundle) {
  const Plan* named = find_plan(spec.training().plan);
  if (named == nullptr) named = find_plan(platform);
  if (named == nullptr) named = find_plan(bundle.plan);
  SLUICE_CHECK(named != nullptr, bundle.plan);
  return *named;
}

}  // namespace sluice::policy
