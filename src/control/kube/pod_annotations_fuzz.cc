// Any text as a Pod's annotation: a slice that there can be, or a sentence that fits into an Event.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "control/kube/pod_annotations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::control;
  if (size == 0) return 0;
  constexpr const char* kNames[] = {kQuotaAnnotation, kSmAnnotation, kMemoryAnnotation,
                                    kDeviceAnnotation};
  const std::string value(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto found = slice_of({{kDeviceAnnotation, "cuda"}, {kNames[data[0] % 4], value}});
  (void)parse_quota_sum(value);
  if (!found.ok()) {
    if (found.error().message.size() > 700) std::abort();
    return 0;
  }
  if (!*found) std::abort();
  const sluice::Slice& s = (*found)->slice;
  const auto is_share = [](sluice::Share share) {
    return share.permille > 0 && share.permille <= 1000;
  };
  if (!is_share(s.sm) || !is_share(s.quota.request) || !is_share(s.quota.limit) ||
      s.quota.limit < s.quota.request || s.memory < 0 || (*found)->permille() > 1000)
    std::abort();
  return 0;
}
