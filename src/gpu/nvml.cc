#include "gpu/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace sluice::node {

// Without the needed ones a library is of no use; of the others an old one may lack some.
#define SLUICE_NVML_NEEDED(use)                                                                    \
  use(nvmlInit_v2) use(nvmlShutdown) use(nvmlDeviceGetCount_v2) use(nvmlDeviceGetHandleByIndex_v2) \
      use(nvmlDeviceGetUUID) use(nvmlDeviceGetName) use(nvmlDeviceGetMemoryInfo)
#define SLUICE_NVML_WELCOME(use)                                                              \
  use(nvmlErrorString) use(nvmlSystemGetDriverVersion) use(nvmlDeviceGetNumGpuCores)          \
      use(nvmlDeviceGetCudaComputeCapability) use(nvmlDeviceGetMigMode)                       \
          use(nvmlDeviceGetPciInfo_v3) use(nvmlDeviceGetTopologyCommonAncestor)               \
              use(nvmlDeviceGetNvLinkState) use(nvmlDeviceGetNvLinkRemoteDeviceType)          \
                  use(nvmlDeviceGetNvLinkRemotePciInfo_v2) use(nvmlDeviceGetUtilizationRates) \
                      use(nvmlDeviceGetProcessUtilization) use(nvmlDeviceGetTotalEccErrors)   \
                          use(nvmlEventSetCreate) use(nvmlEventSetFree)                       \
                              use(nvmlDeviceRegisterEvents) use(nvmlEventSetWait_v2)          \
                                  use(nvmlDeviceGetComputeRunningProcesses_v3)                \
                                      use(nvmlDeviceGetMPSComputeRunningProcesses_v3)         \
                                          use(nvmlGpmSampleAlloc) use(nvmlGpmSampleFree)      \
                                              use(nvmlGpmSampleGet) use(nvmlGpmMetricsGet)

struct NvmlFunctions {
#define SLUICE_DECLARE(name) decltype(&::name) name = nullptr;
  SLUICE_NVML_NEEDED(SLUICE_DECLARE)
  SLUICE_NVML_WELCOME(SLUICE_DECLARE)
#undef SLUICE_DECLARE
};

namespace {

constexpr unsigned long long kFaults =
    nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;

// What is missing says so like a library that has it and a GPU that has not.
template <class... P, class... A>
nvmlReturn_t ask(nvmlReturn_t (*function)(P...), A... arguments) {
  return function == nullptr ? NVML_ERROR_NOT_SUPPORTED : function(arguments...);
}

// The name of a needed function that the library lacks; null: it has all.
const char* look_up(void* library, NvmlFunctions& f) {
  const char* missing = nullptr;
#define SLUICE_LOOK_UP(name) f.name = reinterpret_cast<decltype(f.name)>(dlsym(library, #name));
#define SLUICE_LOOK_UP_NEEDED(name) \
  SLUICE_LOOK_UP(name)              \
  if (f.name == nullptr) missing = #name;
  SLUICE_NVML_NEEDED(SLUICE_LOOK_UP_NEEDED)
  SLUICE_NVML_WELCOME(SLUICE_LOOK_UP)
#undef SLUICE_LOOK_UP_NEEDED
#undef SLUICE_LOOK_UP
  return missing;
}

std::string in_words(const NvmlFunctions& f, nvmlReturn_t result) {
  const std::string number = "NVML error " + std::to_string(static_cast<int>(result));
  const char* text = f.nvmlErrorString == nullptr ? nullptr : f.nvmlErrorString(result);
  return text == nullptr ? number : number + " (" + text + ")";
}

PciePath path_of(nvmlGpuTopologyLevel_t level) {
  if (level < NVML_TOPOLOGY_SINGLE) return PciePath::kBoard;
  if (level < NVML_TOPOLOGY_MULTIPLE) return PciePath::kSwitch;
  if (level < NVML_TOPOLOGY_HOSTBRIDGE) return PciePath::kSwitches;
  if (level < NVML_TOPOLOGY_NODE) return PciePath::kHostBridge;
  return level < NVML_TOPOLOGY_SYSTEM ? PciePath::kNumaNode : PciePath::kSystem;
}

}  // namespace

// Those that a program's own mistakes raise are none: 13 and 31 (it computed or addressed wrongly),
// 43, 45 (it was stopped), 68 (its video), 109 (its context switch timed out). NVIDIA's device
// plugin for Kubernetes passes over the same.
bool is_fault(uint64_t xid) {
  constexpr std::array<uint64_t, 6> kOfPrograms{13, 31, 43, 45, 68, 109};
  return std::ranges::find(kOfPrograms, xid) == kOfPrograms.end();
}

// CUDA C++ Programming Guide, "Compute Capabilities": arithmetic cores of an SM. NVML says how many
// SMs an instance of MIG has, not a whole GPU; the driver would, to a client of the GPU alone.
int sms_of(int cores, int compute_capability) {
  constexpr int kOldest = 50, kNewest = 121;
  const bool small =
      compute_capability == 60 || compute_capability / 10 == 7 || compute_capability == 80;
  if (compute_capability < kOldest || compute_capability > kNewest || cores <= 0) return 0;
  return cores / (small ? 64 : 128);
}

Result<std::unique_ptr<Nvml>> Nvml::open(const std::string& library) {
  const auto unavailable = [](std::string why) {
    return Error{ErrorKind::kUnavailable, std::move(why)};
  };
  // Never closed: NVML keeps threads of its own.
  void* opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return unavailable(dlerror());
  auto functions = std::make_unique<NvmlFunctions>();
  if (const char* missing = look_up(opened, *functions); missing != nullptr)
    return unavailable(library + ": has no " + missing + ": no NVML, or too old a one");
  const nvmlReturn_t begun = functions->nvmlInit_v2();
  if (begun != NVML_SUCCESS)
    return unavailable(library + ": nvmlInit: " + in_words(*functions, begun));
  return std::unique_ptr<Nvml>(new Nvml(std::move(functions)));
}

Nvml::Nvml(std::unique_ptr<NvmlFunctions> functions) : call_(std::move(functions)) {
  if (ask(call_->nvmlEventSetCreate, &events_) != NVML_SUCCESS) events_ = nullptr;
  unsigned count = 0;
  (void)call_->nvmlDeviceGetCount_v2(&count);
  for (unsigned i = 0; i < count; ++i) {
    Gpu gpu{};
    char uuid[NVML_DEVICE_UUID_BUFFER_SIZE] = {};
    nvmlPciInfo_t pci{};
    if (call_->nvmlDeviceGetHandleByIndex_v2(i, &gpu.handle) != NVML_SUCCESS) continue;
    if (call_->nvmlDeviceGetUUID(gpu.handle, uuid, sizeof uuid) != NVML_SUCCESS) continue;
    gpu.uuid = uuid;
    if (ask(call_->nvmlDeviceGetPciInfo_v3, gpu.handle, &pci) == NVML_SUCCESS) gpu.bus = pci.busId;
    if (events_ != nullptr)
      (void)ask(call_->nvmlDeviceRegisterEvents, gpu.handle, kFaults, events_);
    if (ask(call_->nvmlGpmSampleAlloc, &gpu.before) != NVML_SUCCESS ||
        ask(call_->nvmlGpmSampleAlloc, &gpu.now) != NVML_SUCCESS)
      gpu.now = nullptr;
    gpus_.push_back(std::move(gpu));
  }
}

Nvml::~Nvml() {
  for (const Gpu& gpu : gpus_)
    for (const nvmlGpmSample_t sample : {gpu.before, gpu.now})
      if (sample != nullptr) (void)ask(call_->nvmlGpmSampleFree, sample);
  if (events_ != nullptr) (void)ask(call_->nvmlEventSetFree, events_);
  call_->nvmlShutdown();
}

// ---- what there is ------------------------------------------------------------------------------

std::vector<Device> Nvml::gpus() {
  std::vector<Device> found;
  for (const Gpu& gpu : gpus_) {
    Device d = describe(gpu);
    for (const Gpu& other : gpus_)
      if (&other != &gpu) d.links.push_back(link(gpu, other));
    std::ranges::sort(d.links, {}, &DeviceLink::to);
    found.push_back(std::move(d));
  }
  return found;
}

std::string Nvml::driver_version() const {
  char version[80] = {};
  (void)ask(call_->nvmlSystemGetDriverVersion, version, static_cast<unsigned>(sizeof version));
  return version;
}

Device Nvml::describe(const Gpu& gpu) const {
  Device d{.id = gpu.uuid, .kind = DeviceKind::kCuda, .uuid = gpu.uuid, .bus = gpu.bus};
  char name[NVML_DEVICE_NAME_BUFFER_SIZE] = {};
  nvmlMemory_t memory{};
  int major = 0, minor = 0;
  unsigned cores = 0, mig = 0, mig_to_be = 0;
  if (call_->nvmlDeviceGetName(gpu.handle, name, sizeof name) == NVML_SUCCESS) d.model = name;
  if (call_->nvmlDeviceGetMemoryInfo(gpu.handle, &memory) == NVML_SUCCESS)
    d.memory = static_cast<Bytes>(memory.total);
  if (ask(call_->nvmlDeviceGetCudaComputeCapability, gpu.handle, &major, &minor) == NVML_SUCCESS)
    d.compute_capability = 10 * major + minor;
  if (ask(call_->nvmlDeviceGetNumGpuCores, gpu.handle, &cores) == NVML_SUCCESS)
    d.sms = sms_of(static_cast<int>(cores), d.compute_capability);
  d.mps = d.compute_capability >= 70;  // MPS limits a client's SMs from Volta on
  if (ask(call_->nvmlDeviceGetMigMode, gpu.handle, &mig, &mig_to_be) == NVML_SUCCESS)
    d.mig = mig != 0 ? MigMode::kOn : MigMode::kOff;
  if (d.mig == MigMode::kOn) {
    d.drained = true;
    d.set_apart = "it is split by MIG, and only whole GPUs are given out";
    d.mps = false;
  }
  return d;
}

DeviceLink Nvml::link(const Gpu& from, const Gpu& to) const {
  DeviceLink link{.to = to.uuid, .nvlinks = nvlinks(from, to)};
  nvmlGpuTopologyLevel_t level{};
  if (ask(call_->nvmlDeviceGetTopologyCommonAncestor, from.handle, to.handle, &level) ==
      NVML_SUCCESS)
    link.path = path_of(level);
  return link;
}

// Links to an NVSwitch lead to every GPU that has some.
int Nvml::nvlinks(const Gpu& from, const Gpu& to) const {
  int direct = 0;
  for (unsigned i = 0; i < NVML_NVLINK_MAX_LINKS; ++i) {
    nvmlPciInfo_t other{};
    if (ask(call_->nvmlDeviceGetNvLinkRemotePciInfo_v2, from.handle, i, &other) == NVML_SUCCESS &&
        !to.bus.empty() && to.bus == other.busId)
      ++direct;
  }
  return direct > 0 ? direct : std::min(switch_links(from), switch_links(to));
}

int Nvml::switch_links(const Gpu& gpu) const {
  int count = 0;
  for (unsigned i = 0; i < NVML_NVLINK_MAX_LINKS; ++i) {
    nvmlEnableState_t state{};
    nvmlIntNvLinkDeviceType_t type{};
    count +=
        ask(call_->nvmlDeviceGetNvLinkState, gpu.handle, i, &state) == NVML_SUCCESS &&
        state == NVML_FEATURE_ENABLED &&
        ask(call_->nvmlDeviceGetNvLinkRemoteDeviceType, gpu.handle, i, &type) == NVML_SUCCESS &&
        type == NVML_NVLINK_DEVICE_TYPE_SWITCH;
  }
  return count;
}

// ---- how it is ----------------------------------------------------------------------------------

const Nvml::Gpu* Nvml::find(const std::string& uuid) const {
  const auto found = std::ranges::find(gpus_, uuid, &Gpu::uuid);
  return found == gpus_.end() ? nullptr : &*found;
}

Result<GpuLoad> Nvml::load(const std::string& uuid) const {
  const Gpu* gpu = find(uuid);
  if (gpu == nullptr) return Error{ErrorKind::kNotFound, "NVML does not know it"};
  nvmlMemory_t memory{};
  nvmlUtilization_t busy{};
  const nvmlReturn_t result = call_->nvmlDeviceGetMemoryInfo(gpu->handle, &memory);
  if (result == NVML_ERROR_GPU_IS_LOST)
    return Error{ErrorKind::kUnavailable, "it is lost: " + in_words(*call_, result)};
  if (result != NVML_SUCCESS)
    return Error{ErrorKind::kInternal, "its memory: " + in_words(*call_, result)};
  (void)ask(call_->nvmlDeviceGetUtilizationRates, gpu->handle, &busy);
  return GpuLoad{static_cast<int>(busy.gpu), static_cast<Bytes>(memory.used), std::nullopt};
}

namespace {

std::optional<Share> occupancy_between(const NvmlFunctions& call, nvmlGpmSample_t before,
                                       nvmlGpmSample_t now) {
  nvmlGpmMetricsGet_t asked{.version = NVML_GPM_METRICS_GET_VERSION,
                            .numMetrics = 1,
                            .sample1 = before,
                            .sample2 = now,
                            .metrics = {{.metricId = NVML_GPM_METRIC_SM_OCCUPANCY}}};
  const nvmlGpmMetric_t& metric = asked.metrics[0];
  if (ask(call.nvmlGpmMetricsGet, &asked) != NVML_SUCCESS || metric.nvmlReturn != NVML_SUCCESS ||
      !(metric.value >= 0))
    return std::nullopt;
  return Share{static_cast<int>(std::lround(std::min(metric.value, 100.0) * 10))};
}

}  // namespace

std::optional<Share> Nvml::sm_occupancy(const std::string& uuid) {
  const auto gpu = std::ranges::find(gpus_, uuid, &Gpu::uuid);
  if (gpu == gpus_.end() || gpu->now == nullptr) return std::nullopt;
  const bool taken = ask(call_->nvmlGpmSampleGet, gpu->handle, gpu->now) == NVML_SUCCESS;
  std::optional<Share> occupancy;
  if (taken && gpu->sampled) occupancy = occupancy_between(*call_, gpu->before, gpu->now);
  if (taken) std::swap(gpu->before, gpu->now);
  gpu->sampled = taken;
  return occupancy;
}

namespace {

constexpr unsigned kNewcomers = 16;  // may come between the call that counts and the one that tells

// Writes down what each process has. False: this is not said here.
bool list_memory(nvmlReturn_t (*list)(nvmlDevice_t, unsigned*, nvmlProcessInfo_t*),
                 nvmlDevice_t gpu, std::map<pid_t, Bytes>& all) {
  constexpr unsigned long long kNotSaid = ~0ull;
  unsigned count = 0;
  const nvmlReturn_t counted = ask(list, gpu, &count, static_cast<nvmlProcessInfo_t*>(nullptr));
  if (counted == NVML_SUCCESS) return true;
  if (counted != NVML_ERROR_INSUFFICIENT_SIZE) return false;
  std::vector<nvmlProcessInfo_t> processes(count += kNewcomers);
  if (ask(list, gpu, &count, processes.data()) != NVML_SUCCESS) return false;
  for (const auto& p : std::span(processes).first(std::min<size_t>(count, processes.size()))) {
    if (p.usedGpuMemory == kNotSaid) return false;
    Bytes& bytes = all[static_cast<pid_t>(p.pid)];  // it may be on both lists
    bytes = std::max(bytes, static_cast<Bytes>(p.usedGpuMemory));
  }
  return true;
}

}  // namespace

std::optional<std::map<pid_t, Bytes>> Nvml::process_memory(const std::string& uuid) const {
  const Gpu* gpu = find(uuid);
  std::map<pid_t, Bytes> all;
  if (gpu == nullptr ||
      !list_memory(call_->nvmlDeviceGetComputeRunningProcesses_v3, gpu->handle, all))
    return std::nullopt;
  if (call_->nvmlDeviceGetMPSComputeRunningProcesses_v3 != nullptr &&
      !list_memory(call_->nvmlDeviceGetMPSComputeRunningProcesses_v3, gpu->handle, all))
    return std::nullopt;
  return all;
}

std::vector<GpuProcessUse> Nvml::process_uses(const std::string& uuid, uint64_t since_us) const {
  const Gpu* gpu = find(uuid);
  if (gpu == nullptr) return {};
  unsigned count = 0;
  const auto samples_into = [&](nvmlProcessUtilizationSample_t* to) {
    return ask(call_->nvmlDeviceGetProcessUtilization, gpu->handle, to, &count,
               static_cast<unsigned long long>(since_us));
  };
  if (samples_into(nullptr) != NVML_ERROR_INSUFFICIENT_SIZE) return {};
  std::vector<nvmlProcessUtilizationSample_t> samples(count += kNewcomers);
  if (samples_into(samples.data()) != NVML_SUCCESS) return {};
  std::vector<GpuProcessUse> uses;
  for (const auto& s : std::span(samples).first(std::min<size_t>(count, samples.size())))
    if (s.timeStamp > since_us)
      uses.push_back({static_cast<pid_t>(s.pid), static_cast<int>(s.smUtil), s.timeStamp});
  return uses;
}

uint64_t Nvml::uncorrected_errors(const std::string& uuid) const {
  unsigned long long count = 0;
  if (const Gpu* gpu = find(uuid); gpu != nullptr)
    (void)ask(call_->nvmlDeviceGetTotalEccErrors, gpu->handle, NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
              NVML_VOLATILE_ECC, &count);
  return count;
}

Result<std::optional<GpuEvent>> Nvml::wait_for_event(Nanos patience) {
  nvmlEventData_t event{};
  const nvmlReturn_t result = events_ == nullptr ? NVML_ERROR_NOT_SUPPORTED
                                                 : ask(call_->nvmlEventSetWait_v2, events_, &event,
                                                       static_cast<unsigned>(patience / Millis(1)));
  if (result == NVML_ERROR_TIMEOUT) return std::optional<GpuEvent>();
  if (result != NVML_SUCCESS) return Error{ErrorKind::kUnavailable, in_words(*call_, result)};
  const auto gpu = std::ranges::find(gpus_, event.device, &Gpu::handle);
  if (gpu == gpus_.end()) return std::optional<GpuEvent>();  // of one that it has not named
  GpuEvent told{gpu->uuid, std::string(kUncorrected), true};
  if (event.eventType == nvmlEventTypeXidCriticalError) {
    told.what = "Xid " + std::to_string(event.eventData);
    told.failing = is_fault(event.eventData);
  }
  return std::optional(std::move(told));
}

}  // namespace sluice::node
