#include "sim/device.h"

#include "sim/exact_device.h"
#include "sim/fluid_device.h"

namespace sluice::sim {

std::unique_ptr<SimulatedDevice> make_device(Stepping stepping, const Physics& physics) {
  if (stepping == Stepping::kFluid) return std::make_unique<FluidDevice>(physics);
  return std::make_unique<ExactDevice>(physics);
}

}  // namespace sluice::sim
