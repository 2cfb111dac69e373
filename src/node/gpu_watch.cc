#include "node/gpu_watch.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

namespace sluice::node {
namespace {

constexpr Nanos kLookEvery = Millis(250);        // for loads; events are heard at once
constexpr Nanos kPatienceAtTheEnd = Seconds(2);  // longer than the thread sleeps

struct Found {
  std::vector<Device> gpus;
  std::string description;
};

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
  std::deque<GpuFault> untold;  // while there is nobody to call
  std::map<std::string, GpuLoad> loads;

  // The thread's.
  void run(const std::string& library);
  void answer(Found what);
  void watch(Nvml& nvml, const std::vector<Device>& gpus);
  void look(Nvml& nvml, const Device& gpu);
  void tell(const GpuFault& fault);
  bool sleep(Nanos time);  // false: it is over

  std::set<std::string> faulty;                     // told of
  std::map<std::string, uint64_t> errors_at_start;  // of ECC
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
    for (const Device& gpu : gpus) look(nvml, gpu);
    const auto event = nvml.wait_for_event(kLookEvery);
    if (event.ok() && *event && (*event)->failing) tell({(*event)->uuid, (*event)->what});
    going_on = sleep(event.ok() ? Nanos(0) : kLookEvery);
  }
}

void GpuWatch::Shared::look(Nvml& nvml, const Device& gpu) {
  const Result<GpuLoad> load = nvml.load(gpu.uuid);
  if (!load.ok()) return tell({gpu.uuid, load.error().message});
  if (nvml.uncorrected_errors(gpu.uuid) > errors_at_start[gpu.uuid])
    tell({gpu.uuid, std::string(kUncorrected)});
  const std::lock_guard lock(mutex);
  loads[gpu.uuid] = *load;
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

}  // namespace sluice::node
