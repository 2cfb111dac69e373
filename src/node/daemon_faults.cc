// Devices that take nothing new, and what becomes of who is on one that fails. The loop moves its
// functions' instances, as from any drained device. A program of `sluice run` is nobody's to move,
// and what it computes there is worth nothing: it is asked to end, and killed where that does not
// help in time; who started it learns why from its record.
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "node/daemon.h"
#include "wire/permit_steps.h"

namespace sluice::node {

// Who drains a device that fails does not mend it.
Result<void> Daemon::set_drained(const DeviceId& device, bool drained) {
  const Device* d = ledger_.find(device);
  return drain(device, drained, d != nullptr && drained ? d->fault : "");
}

Result<void> Daemon::drain(const DeviceId& device, bool drained, const std::string& fault) {
  SLUICE_TRY(ledger_.set_drained(device, drained, fault));
  for (LocalDevice& d : state_.devices)
    if (d.device.id == device) {
      d.device.drained = drained;
      d.device.fault = fault;
    }
  return save();
}

// What failed while no daemon ran, and whom the one before us had not ended yet; then whatever
// fails from now on. A fault comes on the watch's thread, which ends before we do; what it has
// posted by then runs only while the loop does.
void Daemon::listen_for_faults() {
  for (const Device& d : ledger_.devices())
    if (!d.fault.empty()) end_programs_on(d);
  gpus_->on_fault(
      [this](const GpuFault& fault) { asio::post(io_, [this, fault] { fail(fault); }); });
}

void Daemon::fail(const GpuFault& fault) {
  const auto d = std::ranges::find(ledger_.devices(), fault.uuid, &Device::uuid);
  if (fault.uuid.empty() || d == ledger_.devices().end()) return;  // a CPU's is empty
  log::error("{} ({}) fails: {}; it takes no new instances", d->id, d->uuid, fault.why);
  if (const auto drained = drain(d->id, true, fault.why); !drained.ok())
    log::error("{}", drained.error().message);
  SLUICE_STEP("fail: drained");
  end_programs_on(*ledger_.find(d->id));
}

// On disk before anybody is told, so that the next daemon knows why they end.
void Daemon::end_programs_on(const Device& device) {
  std::vector<InstanceId> programs;
  for (InstanceRecord& r : state_.instances) {
    if (!alive(r) || !r.foreign || r.instance.device != device.id) continue;
    r.instance.state = InstanceState::kDraining;
    r.device_fault = device.fault;
    programs.push_back(r.instance.id);
  }
  if (programs.empty()) return;
  SLUICE_STEP("fail: marked");
  if (const Result<void> saved = save(); !saved.ok()) log::error("{}", saved.error().message);
  SLUICE_STEP("fail: saved");
  for (const InstanceId& id : programs) {
    log::warn("{}: ended, {} fails: {}", id, device.id, device.fault);
    asio::co_spawn(io_, end_processes(find(id)->instance, settings_.grace), asio::detached);
  }
}

}  // namespace sluice::node
