#include "gpu/gpu_watch.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace sluice::node {
namespace {

constexpr Nanos kLookEvery = Millis(250);        // for loads; events are heard at once
constexpr Nanos kUsesEvery = Millis(500);        // what processes use: whole percents of as much
constexpr Nanos kLate = Seconds(1);              // and are told within
constexpr Nanos kForgotten = Seconds(10);        // what a process used then, if no more since
constexpr Nanos kPatienceAtTheEnd = Seconds(2);  // longer than the thread sleeps

struct Found {
  std::vector<Device> gpus;
  std::string description;
};

int64_t unix_micros() {
  return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string in_words(const std::vector<Device>& gpus, const std::string& driver) {
  return std::to_string(gpus.size()) + (gpus.size() == 1 ? " GPU" : " GPUs") + ", driver " + driver;
}

}  // namespace

struct GpuWatch::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Found> found;
  bool stopping = false, ended = false;
  std::function<void(const GpuFault&)> call;
  std::deque<GpuFault> untold;  // while there is no receiver
  std::map<std::string, GpuLoad> loads;
  struct Memory {
    Time at{};
    std::map<pid_t, Bytes> of;
  };
  std::map<std::string, std::map<pid_t, DeviceUse>> uses;
  std::map<std::string, Memory> memories;  // of GPUs that say

  // The thread's.
  void run(const std::string& library);
  void answer(Found what);
  void watch(Nvml& nvml, const std::vector<Device>& gpus);
  void look(Nvml& nvml, const Device& gpu);
  void look_at_processes(Nvml& nvml, const Device& gpu);
  void tell(const GpuFault& fault);
  bool sleep(Nanos time);  // false: it is over

  std::set<std::string> faulty;                     // told of
  std::map<std::string, uint64_t> errors_at_start;  // of ECC
  std::map<std::string, uint64_t> uses_until_us;    // by NVML's clock
};

void GpuWatch::Shared::run(const std::string& library) {
  if (const auto nvml = Nvml::open(library); nvml.ok()) {
    const std::vector<Device> gpus = (*nvml)->gpus();
    answer({gpus, in_words(gpus, (*nvml)->driver_version())});
    if (!gpus.empty()) watch(**nvml, gpus);
  } else {
    answer({{}, "no GPU: " + nvml.error().message});
  }
  const std::lock_guard lock(mutex);
  ended = true;
  changed.notify_all();
}

void GpuWatch::Shared::answer(Found what) {
  const std::lock_guard lock(mutex);
  found = std::move(what);
  changed.notify_all();
}

void GpuWatch::Shared::watch(Nvml& nvml, const std::vector<Device>& gpus) {
  for (const Device& gpu : gpus) errors_at_start[gpu.uuid] = nvml.uncorrected_errors(gpu.uuid);
  for (bool going_on = true; going_on;) {
    for (const Device& gpu : gpus) {
      look(nvml, gpu);
      look_at_processes(nvml, gpu);
    }
    const auto event = nvml.wait_for_event(kLookEvery);
    if (event.ok() && *event && (*event)->failing) tell({(*event)->uuid, (*event)->what});
    going_on = sleep(event.ok() ? Nanos(0) : kLookEvery);
  }
}

void GpuWatch::Shared::look(Nvml& nvml, const Device& gpu) {
  Result<GpuLoad> load = nvml.load(gpu.uuid);
  if (!load.ok() && load.error().kind == ErrorKind::kUnavailable)
    return tell({gpu.uuid, load.error().message});
  if (nvml.uncorrected_errors(gpu.uuid) > errors_at_start[gpu.uuid])
    tell({gpu.uuid, std::string(kUncorrected)});
  if (load.ok()) load->sm_occupancy = nvml.sm_occupancy(gpu.uuid);
  const Time now = SteadyClock().now();
  std::optional<std::map<pid_t, Bytes>> memory = nvml.process_memory(gpu.uuid);
  const std::lock_guard lock(mutex);
  if (load.ok())
    loads[gpu.uuid] = *load;
  else
    loads.erase(gpu.uuid);
  if (memory)
    memories[gpu.uuid] = {now, std::move(*memory)};
  else
    memories.erase(gpu.uuid);
}

void GpuWatch::Shared::look_at_processes(Nvml& nvml, const Device& gpu) {
  const Time now = SteadyClock().now();  // both clocks at once: the call below may take long
  const uint64_t now_us = static_cast<uint64_t>(unix_micros());
  uint64_t& since_us = uses_until_us[gpu.uuid];
  if (since_us + static_cast<uint64_t>(kUsesEvery / Micros(1)) > now_us) return;
  const std::vector<GpuProcessUse> found = nvml.process_uses(gpu.uuid, since_us);
  const uint64_t from_us = since_us;
  const auto moment = [&](uint64_t us) { return now - Micros(now_us - us); };
  const std::lock_guard lock(mutex);
  std::map<pid_t, DeviceUse>& known = uses[gpu.uuid];
  std::erase_if(known, [&](const auto& use) { return use.second.until < now - kForgotten; });
  if (found.empty())
    since_us = std::max(since_us, now_us - static_cast<uint64_t>(kLate / Micros(1)));
  for (const GpuProcessUse& use : found) {
    since_us = std::max(since_us, use.until_us);
    if (from_us == 0) continue;  // of how long, it does not say
    const Nanos span = Micros(use.until_us - from_us);
    known[use.pid] = {moment(from_us), moment(use.until_us), span * use.busy_percent / 100,
                      span / 100};
  }
}

void GpuWatch::Shared::tell(const GpuFault& fault) {
  if (!faulty.insert(fault.uuid).second) return;
  const std::lock_guard lock(mutex);
  if (stopping) return;
  if (call)
    call(fault);
  else
    untold.push_back(fault);
}

bool GpuWatch::Shared::sleep(Nanos time) {
  std::unique_lock lock(mutex);
  return !changed.wait_for(lock, time, [this] { return stopping; });
}

std::unique_ptr<GpuWatch> GpuWatch::start(const std::string& library, Nanos patience) {
  auto shared = std::make_shared<Shared>();
  if (library.empty()) {
    shared->ended = true;
    std::unique_ptr<GpuWatch> none(new GpuWatch(shared));
    none->description_ = "no GPU: none is wanted";
    return none;
  }
  std::thread([shared, library] { shared->run(library); }).detach();
  std::unique_ptr<GpuWatch> watch(new GpuWatch(shared));
  std::unique_lock lock(shared->mutex);
  shared->changed.wait_for(lock, patience, [&] { return shared->found.has_value(); });
  if (shared->found) {
    watch->gpus_ = std::move(shared->found->gpus);
    watch->description_ = std::move(shared->found->description);
  } else {
    watch->description_ = "no GPU: " + library + " does not answer";
  }
  return watch;
}

GpuWatch::~GpuWatch() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kPatienceAtTheEnd, [this] { return shared_->ended; });
}

void GpuWatch::on_fault(std::function<void(const GpuFault&)> call) {
  const std::lock_guard lock(shared_->mutex);
  for (const GpuFault& fault : shared_->untold) call(fault);
  shared_->untold.clear();
  shared_->call = std::move(call);
}

std::map<std::string, GpuLoad> GpuWatch::loads() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->loads;
}

class GpuWatch::Account : public DeviceAccount {
 public:
  Account(std::shared_ptr<Shared> shared, std::string uuid)
      : shared_(std::move(shared)), uuid_(std::move(uuid)) {}

  // An arbiter's thread asks, before which the watch's may not run: it would wait for ever.
  std::optional<DeviceUse> latest(pid_t pid) const override {
    const std::unique_lock lock(shared_->mutex, std::try_to_lock);
    if (!lock) return std::nullopt;
    const auto known = shared_->uses.find(uuid_);
    if (known == shared_->uses.end()) return std::nullopt;
    const auto use = known->second.find(pid);
    return use == known->second.end() ? std::nullopt : std::optional(use->second);
  }

  std::map<pid_t, DeviceUse> uses() const override {
    const std::lock_guard lock(shared_->mutex);
    const auto known = shared_->uses.find(uuid_);
    return known != shared_->uses.end() ? known->second : std::map<pid_t, DeviceUse>();
  }

  std::optional<DeviceMemory> memory(pid_t pid) const override {
    const std::lock_guard lock(shared_->mutex);
    const auto known = shared_->memories.find(uuid_);
    if (known == shared_->memories.end()) return std::nullopt;
    const auto bytes = known->second.of.find(pid);
    return DeviceMemory{known->second.at, bytes != known->second.of.end() ? bytes->second : 0};
  }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::string uuid_;
};

std::shared_ptr<const DeviceAccount> GpuWatch::account(const std::string& uuid) const {
  return std::make_shared<Account>(shared_, uuid);
}

}  // namespace sluice::node
