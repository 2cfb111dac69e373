#include "policy/bundle.h"

#include "base/check.h"
#include "policy/plan/plan_elastic.h"

namespace sluice::policy {

const Bundle* find_bundle(std::string_view name) {
  for (const Bundle& bundle : bundles()) {
    if (bundle.name == name) return &bundle;
  }
  return nullptr;
}

const Plan& plan_of(const Bundle& bundle) {
  static const Plan kElastic{plan_elastic, Settings(ElasticSettings{}), kElasticMemory};
  return bundle.plan.run != nullptr ? bundle.plan : kElastic;
}

const Bundle& bundle_of(const FunctionSpec& spec, std::string_view platform) {
  const Bundle* named = find_bundle(spec.policy);
  if (named == nullptr) named = find_bundle(platform);
  SLUICE_CHECK(named != nullptr, platform);
  return *named;
}

}  // namespace sluice::policy
