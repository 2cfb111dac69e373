#include "node/daemon.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "node/machine.h"
#include "wire/await.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

using wire::kAwait;
constexpr size_t kKeptDead = 200;  // records of instances that are gone, for those who ask why

// The same request, whatever became of it since (a slice is resized, a position chosen).
bool same_start(const InstanceRecord& r, const StartRequest& q) {
  return !r.foreign && r.instance.function == q.function && r.instance.revision == q.revision &&
         r.instance.device == q.device && r.instance.batch == q.batch && r.model == q.model &&
         r.batching == q.batching;
}

}  // namespace

// ---- what is asked of us -----------------------------------------------------------------------

Result<const InstanceRecord*> Daemon::start(const StartRequest& q) {
  SLUICE_TRY(check_id(q.id, settings_.paths));
  if (const InstanceRecord* known = find(q.id)) {
    if (same_start(*known, q)) return known;
    return Error{ErrorKind::kConflict, "id: '" + q.id + "' is another instance"};
  }
  if (const Device* d = ledger_.find(q.device); d != nullptr && d->kind == DeviceKind::kCuda)
    return Error{ErrorKind::kInvalid, "device: " + q.device +
                                          " is a GPU, and the model server computes on CPUs; "
                                          "`sluice run` puts a program of your own on it"};
  if (access(q.model.path.c_str(), R_OK) != 0)
    return Error{ErrorKind::kInvalid, "model.path: " + q.model.path + ": " + std::strerror(errno)};
  const std::optional<ProcessIdentity> owner = identity_of(q.owner);
  if (q.owner != 0 && !owner)
    return Error{ErrorKind::kInvalid, "owner: " + std::to_string(q.owner) + " is no process here"};
  InstanceRecord r;
  r.instance = {.id = q.id,
                .function = q.function,
                .revision = q.revision,
                .device = q.device,
                .slice = q.slice,
                .batch = q.batch};
  r.model = q.model;
  r.batching = q.batching;
  r.socket = settings_.paths.socket_of(q.id);
  r.log = q.log.empty() ? settings_.paths.log_of(q.id) : q.log;
  r.owner = owner.value_or(ProcessIdentity{});
  SLUICE_TRY(enter(std::move(r), q.position));
  forget_old();
  asio::co_spawn(io_, launch(q.id), asio::detached);
  if (owner) asio::co_spawn(io_, stop_with_owner(q.id, *owner), asio::detached);
  return find(q.id);
}

Result<const InstanceRecord*> Daemon::take_process(const ProcessRequest& q) {
  SLUICE_TRY(check_id(q.id, settings_.paths));
  const std::optional<ProcessIdentity> process = identity_of(q.pid);
  if (!process || q.pid == getpid() || q.pid == 1)
    return Error{ErrorKind::kInvalid, "pid: " + std::to_string(q.pid) + " is no process here"};
  if (const InstanceRecord* known = find(q.id)) {
    if (known->foreign && known->process == *process) return known;
    return Error{ErrorKind::kConflict, "id: '" + q.id + "' is another instance"};
  }
  for (const InstanceRecord& r : state_.instances)
    if (alive(r) && r.process == *process)
      return Error{ErrorKind::kConflict,
                   "pid: " + std::to_string(q.pid) + " is under the slice " + r.instance.id};
  const Device* device = ledger_.find(q.device);
  if (device != nullptr && device->kind != DeviceKind::kCuda && q.slice.memory > 0)
    return Error{ErrorKind::kInvalid, "slice.memory: " + q.device +
                                          " is no GPU: a program's memory there is not held to a "
                                          "limit; 0 is allowed"};
  SLUICE_ASSIGN(pidfd, open_process(*process));
  if (const Device* d = ledger_.find(q.device); d != nullptr && d->kind == DeviceKind::kCuda)
    SLUICE_TRY(mps_.pipes_for(*d, q.slice, q.pid));
  InstanceRecord r;
  r.instance = {.id = q.id,
                .function = q.function.name.empty() ? FunctionName{.name = q.id} : q.function,
                .state = InstanceState::kReady,
                .device = q.device,
                .slice = q.slice};
  r.foreign = true;
  r.process = *process;
  SLUICE_TRY(enter(r, q.position));
  for (const pid_t pid : family_of(q.pid)) {
    const Result<void> placed = enforcer_->place(*find(q.id), pid);
    if (!placed.ok() && pid == q.pid) log::warn("{}: {}", q.id, placed.error().message);
  }
  SLUICE_STEP("take: placed");
  live_[q.id].pidfd = std::move(pidfd);
  asio::co_spawn(io_, watch(q.id), asio::detached);
  log::info("{}: process {} is under a slice of {} ‰ of {}", q.id, q.pid,
            q.slice.quota.request.permille, q.device);
  return find(q.id);
}

ProgramEnvironment Daemon::environment(const InstanceRecord& r) const {
  const Device& device = *ledger_.find(r.instance.device);
  return environment_on(
      device, r.instance.slice,
      std::filesystem::absolute(settings_.paths.permit_socket_of(r.instance.id)),
      {.mps_pipes = mps_.pipes_for(device, r.instance.slice, r.process.pid).value_or({}),
       .model_store = stores_.socket_of(device.id)});
}

// Programs of one function, on the GPU whose store it is.
Result<std::string> Daemon::owner_on(const DeviceId& gpu, const Peer& peer) const {
  const std::optional<InstanceId> id = enforcer_->slice_of(peer);
  const InstanceRecord* r = id ? find(*id) : nullptr;
  if (r == nullptr || r->instance.device != gpu)
    return Error{ErrorKind::kNotFound,
                 "process " + std::to_string(peer.process.pid) + " has no slice of it"};
  return to_string(r->instance.function);
}

asio::awaitable<void> Daemon::leave() {
  return mps_.quit();
}

// Keeps the newest dead for those who ask why.
void Daemon::forget_old() {
  auto dead = static_cast<size_t>(std::ranges::count_if(state_.instances, std::not_fn(alive)));
  std::erase_if(state_.instances,
                [&](const InstanceRecord& r) { return !alive(r) && dead-- > kKeptDead; });
}

// ---- what is asked about us --------------------------------------------------------------------

InstanceRecord* Daemon::find_record(const InstanceId& id) {
  const auto found = std::ranges::find_if(
      state_.instances, [&](const InstanceRecord& r) { return r.instance.id == id; });
  return found == state_.instances.end() ? nullptr : &*found;
}

const InstanceRecord* Daemon::find(const InstanceId& id) const {
  return const_cast<Daemon*>(this)->find_record(id);
}

Result<void> Daemon::save() {
  tell_change();
  return registry_.save(state_);
}

void Daemon::tell_change() {
  ++version_;
  for (asio::steady_timer* waiter : waiting_) waiter->cancel();
}

asio::awaitable<void> Daemon::change_after(uint64_t version, Nanos patience) {
  if (version_ > version) co_return;
  asio::steady_timer timer(io_, patience);
  waiting_.insert(&timer);
  co_await timer.async_wait(kAwait);
  waiting_.erase(&timer);
}

DaemonView Daemon::view() const {
  DaemonView v{.boot_id = state_.boot_id,
               .generation = state_.generation,
               .version = version_,
               .backstop = enforcer_->has_backstop(),
               .enforcement = enforcer_->describe(),
               .devices = ledger_.devices()};
  if (!settings_.own_uids) v.enforcement += "; instances share this user's uid";
  const std::map<std::string, GpuLoad> loads = gpus_->loads();
  for (Device& d : v.devices) {
    if (const auto load = loads.find(d.uuid); load != loads.end()) v.loads[d.id] = load->second;
    if (d.kind == DeviceKind::kCuda) d.mps_status = mps_.describe(d);
  }
  std::map<InstanceId, ClientState> states = enforcer_->states();
  for (const InstanceRecord& r : state_.instances) {
    const ClientState state = alive(r) ? states[r.instance.id] : ClientState{};
    v.instances.push_back({r, alive(r) ? state.used : r.used, state.ungated, state.sm_refusal,
                           alive(r) ? peak_memory(r.process.pid) : 0,
                           enforcer_->memory_held(r.instance.id),
                           enforcer_->fault_of(r.instance.id), enforcer_->outside(r.instance.id)});
  }
  return v;
}

}  // namespace sluice::node
