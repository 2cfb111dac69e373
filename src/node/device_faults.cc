#include "node/device_faults.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/log.h"
#include "wire/http/await.h"
#include "wire/permit_steps.h"

namespace sluice::node {

using wire::kAwait;

DeviceFaults::DeviceFaults(asio::io_context& io, Records& records, Reservations& reservations,
                           LiveInstances& live, Nanos replaced_within, Nanos grace)
    : io_(io),
      records_(records),
      reservations_(reservations),
      live_(live),
      replaced_within_(replaced_within),
      grace_(grace) {}

// A fault comes on the watch's thread. Its posted work runs only as long as the loop does.
void DeviceFaults::listen_to(GpuWatch& watch) {
  for (const Device& d : reservations_.ledger().devices())
    if (!d.fault.empty()) end_programs_on(d);
  watch.on_fault(
      [this](const GpuFault& fault) { asio::post(io_, [this, fault] { fail(fault); }); });
}

Result<void> DeviceFaults::set_drained(const DeviceId& device, bool drained) {
  const Device* d = reservations_.ledger().find(device);
  return reservations_.set_drained(device, drained, d != nullptr && drained ? d->fault : "");
}

void DeviceFaults::fail(const GpuFault& fault) {
  const std::vector<Device>& devices = reservations_.ledger().devices();
  const auto d = std::ranges::find(devices, fault.uuid, &Device::uuid);
  if (fault.uuid.empty() || d == devices.end()) return;  // a CPU's is empty
  log::error("{} ({}) fails: {}; it takes no new instances", d->id, d->uuid, fault.why);
  if (const auto drained = reservations_.set_drained(d->id, true, fault.why); !drained.ok())
    log::error("{}", drained.error().message);
  SLUICE_STEP("fail: drained");
  end_programs_on(*d);
}

// The reason is on disk before a program is signalled, so that the next daemon knows why it ends.
void DeviceFaults::end_programs_on(const Device& device) {
  std::vector<InstanceId> programs;
  for (InstanceRecord& r : records_.instances()) {
    if (!alive(r) || !is_program(r) || part_on(r.instance.parts, device.id) == nullptr) continue;
    programs.push_back(r.instance.id);
    if (r.foreign) r.instance.state = InstanceState::kDraining;  // stop() marks the others
    if (r.foreign || r.instance.state != InstanceState::kReady) r.device_fault = device.fault;
  }
  if (programs.empty()) return;
  SLUICE_STEP("fail: marked");
  records_.save_or_log();
  SLUICE_STEP("fail: saved");
  for (const InstanceId& id : programs) {
    const InstanceRecord* r = records_.find(id);
    if (!r->foreign && r->instance.state == InstanceState::kReady) {
      asio::co_spawn(io_, end_once_replaced(id, r->process, device.id), asio::detached);
      continue;
    }
    log::warn("{}: ended, {} fails: {}", id, device.id, device.fault);
    (void)live_.end_program(id, grace_);
  }
}

// Unless the device was taken into use again meanwhile.
asio::awaitable<void> DeviceFaults::end_once_replaced(InstanceId id, ProcessIdentity process,
                                                      DeviceId device) {
  asio::steady_timer timer(io_, replaced_within_);
  co_await timer.async_wait(kAwait);
  InstanceRecord* r = records_.find(id);
  const Device* d = reservations_.ledger().find(device);
  if (r == nullptr || !alive(*r) || r->process != process || d == nullptr || d->fault.empty())
    co_return;
  r->device_fault = d->fault;
  records_.save_or_log();
  log::warn("{}: ended, {} fails: {}", id, device, d->fault);
  (void)live_.end_program(id, grace_);
}

}  // namespace sluice::node
