// Any bytes as a program's page of metrics: nothing, or counts that a counter can have.
#include <cstdint>
#include <cstdlib>

#include "control/peers/metrics_page.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice::control;
  const auto counts =
      program_counts_from(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!counts) return 0;
  for (const double count : {counts->inferences, counts->executions, counts->request_us,
                             counts->queue_us, counts->compute_us})
    if (!(count >= 0 && count <= 1e18)) std::abort();
  return 0;
}
