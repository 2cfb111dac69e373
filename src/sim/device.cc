#include "sim/device.h"

#include "sim/exact_device.h"
#include "sim/fluid_device.h"

namespace sluice::sim {

std::string_view to_string(Stepping stepping) {
  return stepping == Stepping::kFluid ? "fluid" : "exact";
}

std::optional<Stepping> find_stepping(std::string_view name) {
  for (const Stepping s : {Stepping::kExact, Stepping::kFluid})
    if (to_string(s) == name) return s;
  return std::nullopt;
}

std::unique_ptr<SimulatedDevice> make_device(Stepping stepping, const Physics& physics) {
  if (stepping == Stepping::kFluid) return std::make_unique<FluidDevice>(physics);
  return std::make_unique<ExactDevice>(physics);
}

}  // namespace sluice::sim
