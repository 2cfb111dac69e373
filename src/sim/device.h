// A device in virtual time: clients with slices run batches on it, as its arbiter lets them. There
// are two models of a CPU, of one physics (docs/simulator.md): ExactDevice (exact_device.h) steps
// the node daemon's hosted device, FluidDevice (fluid_device.h) gives each busy client a rate. A
// GPU is a GpuDevice (gpu_device.h). Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "arbiters/arbiter.h"

namespace sluice::sim {

// A GPU beside its clients' hosts. The times are those that DeviceSpec::h200 assumes
// (device_model/device_model.h): with them the emulated device follows figures of an H200.
struct GpuPhysics {
  Nanos slice = Millis(2);       // for which a client has its SMs while another waits for them
  Nanos switching = Micros(80);  // from one client to another; nothing runs
  Nanos linger = Micros(100);    // a client that has nothing to run keeps its SMs so long
  bool side_by_side = true;      // clients may have parts of the SMs (MPS); for the arbiter

  bool operator==(const GpuPhysics&) const = default;
};

struct Physics {
  Nanos grain = Millis(1);       // the length of an operator: what revoking a permit waits for
  Share contention = kNone;      // how much longer work takes while others run on all other sm
  Nanos meter_lag = Millis(12);  // without a report for so long, a client has used nothing
  std::optional<GpuPhysics> gpu = std::nullopt;  // nothing: it is a CPU

  bool operator==(const Physics&) const = default;
};

enum class Stepping { kExact, kFluid };
inline std::string_view to_string(Stepping stepping) {
  return stepping == Stepping::kFluid ? "fluid" : "exact";
}
inline std::optional<Stepping> find_stepping(std::string_view name) {
  for (const Stepping s : {Stepping::kExact, Stepping::kFluid})
    if (to_string(s) == name) return s;
  return std::nullopt;
}

class SimulatedDevice {
 public:
  virtual ~SimulatedDevice() = default;

  // Changes the arbiter.
  // REQUIRES: the device has no clients.
  virtual Result<void> run(std::string_view arbiter) = 0;
  // Adds a client, or changes its slice.
  virtual Result<void> admit(const policy::ShareClient& share, Time now) = 0;
  // Sets the part of the time alone of the client's batches in which only its host works. A CPU
  // ignores it: host and device are one there.
  // REQUIRES: the client has no batch; host < kWhole
  virtual void set_host(policy::ClientId /*id*/, Share /*host*/) {}
  virtual void remove(policy::ClientId id, Time now) = 0;
  virtual bool empty() const = 0;

  // Begins a batch that takes `work` alone and should be answered by `due`.
  // REQUIRES: the client has none.
  virtual void begin(policy::ClientId id, Nanos work, int batch, Time due, Time now) = 0;

  // Returns when step() is to be called.
  virtual Time next() const = 0;
  // Lets time pass until now and decides. Returns the clients whose batches have ended.
  virtual std::vector<policy::ClientId> step(Time now) = 0;

  // Returns what the client holds, as its arbiter knows it; nullptr if there is no such client.
  virtual const policy::ShareClient* share_of(policy::ClientId id) const = 0;
  // Returns the client's busy time until now, as far as steps have shown it.
  virtual Nanos used(policy::ClientId id, Time now) const = 0;
  virtual int64_t steps() const = 0;
};

// Returns kInvalid for a GPU that is to be a fluid.
inline Result<void> check_stepping(Stepping stepping, const Physics& physics) {
  if (stepping != Stepping::kFluid || !physics.gpu) return {};
  return Error{
      ErrorKind::kInvalid,
      "stepping: devices of kind gpu are exact, as a fluid's clients have no hosts; allowed: "
      "exact"};
}

// REQUIRES: check_stepping(stepping, physics)
std::unique_ptr<SimulatedDevice> make_device(Stepping stepping, const Physics& physics);

}  // namespace sluice::sim
