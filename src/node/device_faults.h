// Cordons devices, and ends the programs on a device that fails, for their results are worthless. A
// record says why. The control loop moves the ready instances of functions, as from any cordoned
// device, and has a while for it; all other programs are ended at once.
//
// Belongs to one io_context with one thread, and must outlive what that has in hand.
#pragma once

#include "gpu/gpu_watch.h"
#include "node/live_instances.h"

namespace sluice::node {

class DeviceFaults {
 public:
  // `replaced_within`: what ready instances of functions have; `grace`: from SIGTERM to SIGKILL.
  DeviceFaults(asio::io_context& io, Records& records, Reservations& reservations,
               LiveInstances& live, Nanos replaced_within, Nanos grace);
  DeviceFaults(const DeviceFaults&) = delete;

  // Ends programs that an earlier daemon had not ended yet; then acts on each fault that `watch`
  // finds. `watch` ends before this object does.
  void listen_to(GpuWatch& watch);

  // Cordoning a faulty device does not clear its fault; taking it into use again does.
  Result<void> set_drained(const DeviceId& device, bool drained);

 private:
  void fail(const GpuFault& fault);
  void end_programs_on(const Device& device);
  asio::awaitable<void> end_once_replaced(InstanceId id, ProcessIdentity process, DeviceId device);

  asio::io_context& io_;
  Records& records_;
  Reservations& reservations_;
  LiveInstances& live_;
  const Nanos replaced_within_, grace_;
};

}  // namespace sluice::node
