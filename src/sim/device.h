// A device in virtual time: clients with slices run batches on it, as its arbiter lets them. There
// are two models of it, of one physics (docs/simulator.md): ExactDevice (exact_device.h) steps the
// node daemon's hosted device, FluidDevice (fluid_device.h) gives each busy client a rate. Not
// thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "arbiters/arbiter.h"

namespace sluice::sim {

struct Physics {
  Nanos grain = Millis(1);       // the length of an operator: what revoking a permit waits for
  Share contention = kNone;      // how much longer work takes while others run on all other sm
  Nanos meter_lag = Millis(12);  // without a report for so long, a client has used nothing

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

std::unique_ptr<SimulatedDevice> make_device(Stepping stepping, const Physics& physics);

}  // namespace sluice::sim
