// Any bytes are either a plan within its bounds, or an error with a message.
#include <cstdint>
#include <cstdlib>

#include "sim/rate_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sluice;
  const auto plan = sim::parse_rates({reinterpret_cast<const char*>(data), size});
  if (!plan.ok()) return plan.error().message.empty() ? std::abort(), 0 : 0;
  for (const sim::RateStep& step : *plan)
    if (!(step.rate >= 0 && step.rate <= 1e6) || step.duration <= Nanos(0)) std::abort();
  return 0;
}
