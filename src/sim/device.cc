#include "sim/device.h"

#include "base/check.h"
#include "sim/exact_device.h"
#include "sim/fluid_device.h"
#include "sim/gpu_device.h"

namespace sluice::sim {

std::unique_ptr<SimulatedDevice> make_device(Stepping stepping, const Physics& physics) {
  const auto possible = check_stepping(stepping, physics);
  SLUICE_CHECK(possible.ok(), possible.error().message);
  if (physics.gpu) return std::make_unique<GpuDevice>(physics);
  if (stepping == Stepping::kFluid) return std::make_unique<FluidDevice>(physics);
  return std::make_unique<ExactDevice>(physics);
}

}  // namespace sluice::sim
