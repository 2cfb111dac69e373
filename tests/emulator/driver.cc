#include "tests/emulator/driver.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/emulator/identity.h"
#include "tests/emulator/settings.h"

namespace sluice::emulator {
namespace {
// The process's driver; made once by cuInit and never destroyed: threads may call until its end.
Driver* the_driver = nullptr;
std::mutex making;

// CUDA_VISIBLE_DEVICES: numbers or UUIDs, up to the first that is not there.
std::vector<std::uint32_t> visible_devices(std::uint32_t count) {
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < count; ++i) all.push_back(i);
  const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  if (chosen == nullptr) return all;
  std::vector<std::uint32_t> some;
  for (std::string_view left = chosen; !left.empty();) {
    const std::string_view word = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), word.size() + 1));
    std::uint32_t found = DeviceModel::kNone;
    for (const std::uint32_t i : all)
      if (word == std::to_string(i) || word == uuid_text(i)) found = i;
    if (found == DeviceModel::kNone) break;
    some.push_back(found);
  }
  return some;
}

std::uint32_t sm_permille() {
  const char* text = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const double percent = text == nullptr ? 100 : std::atof(text);
  return percent > 0 && percent <= 100 ? static_cast<std::uint32_t>(percent * 10) : 1000;
}

CUresult make_driver() {
  const char* path = std::getenv("SLUICE_EMULATED_GPU");
  if (path == nullptr) return CUDA_ERROR_NO_DEVICE;
  MachineSpec spec;
  std::string why;
  const char* settings = std::getenv("SLUICE_EMULATED_GPU_SPEC");
  if (settings != nullptr && !read_settings(settings, spec, why)) return CUDA_ERROR_INVALID_VALUE;
  auto driver = std::make_unique<Driver>();
  driver->machine = Machine::open(path, spec);
  if (driver->machine == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  driver->visible = visible_devices(driver->machine->spec().devices);
  if (driver->visible.empty()) return CUDA_ERROR_NO_DEVICE;
  driver->process = driver->machine->join(sm_permille());
  if (driver->process == DeviceModel::kNone) return CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
  driver->primaries.resize(driver->visible.size());
  for (std::size_t i = 0; i < driver->visible.size(); ++i) {
    auto pool = std::make_unique<Pool>();
    pool->device = static_cast<CUdevice>(i);
    driver->default_pools.push_back(driver->pools.add(std::move(pool)));
  }
  driver->current_pools = driver->default_pools;
  pthread_atfork(nullptr, nullptr, [] { the_driver->forked = true; });
  the_driver = driver.release();
  return CUDA_SUCCESS;
}
}  // namespace

Driver* driver_of_process() {
  return the_driver;
}

std::vector<Context*>& context_stack() {
  thread_local std::vector<Context*> stack;
  return stack;
}

int thread_id() {
  thread_local const int id = gettid();
  return id;
}

Call::Call(const char* function, Needs needs) : driver_(the_driver) {
  if (driver_ == nullptr || driver_->forked) {
    refused_ = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  if (HostFunctions::running()) {
    refused_ = CUDA_ERROR_NOT_PERMITTED;
    return;
  }
  lock_ = std::unique_lock(driver_->mutex);
  refused_ = injected(function);
  if (refused_ != CUDA_SUCCESS) return;
  const auto& stack = context_stack();
  context_ = stack.empty() ? nullptr : stack.back();
  const bool lives = driver_->contexts.find(context_) != nullptr;
  if (needs == kDriver) return;
  if (context_ == nullptr)
    refused_ = CUDA_ERROR_INVALID_CONTEXT;
  else if (!lives)
    refused_ = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  else
    refused_ = look_at(*context_);
}

CUresult Call::injected(const char* function) {
  if (!driver_->machine->injections_waiting()) return CUDA_SUCCESS;
  Machine::Lock lock(*driver_->machine);
  for (Injection& injection : lock->injections) {
    if (!injection.used || std::strcmp(injection.function, function) != 0) continue;
    if (injection.pid != 0 && injection.pid != getpid()) continue;
    if (injection.skip > 0) {
      --injection.skip;
      continue;
    }
    if (--injection.times == 0) {
      injection.used = false;
      --lock->injections_waiting;
    }
    return static_cast<CUresult>(injection.result);
  }
  return CUDA_SUCCESS;
}

// Returns whether one of its kernels has ended in an error by now.
CUresult Call::look_at(Context& context) {
  if (context.error != CUDA_SUCCESS || context.faults.empty()) return context.error;
  Machine::Lock lock(*driver_->machine);
  for (const Context::Fault& fault : context.faults) {
    if (!model(lock, context.device).reached(fault.at)) continue;
    context.error = fault.error;
    const std::uint32_t device = driver_->in_machine(context.device);
    lock->devices[device].abort_client(lock->processes[driver_->process].client[device]);
    break;
  }
  return context.error;
}

CUresult Call::wait(Context* context, const std::function<bool(DeviceModel&)>& done) {
  const std::uint32_t device = driver_->in_machine(context->device);
  lock_.unlock();
  const bool happened =
      driver_->machine->wait([&](MachineState& state) { return done(state.devices[device]); });
  lock_.lock();
  if (driver_->contexts.find(context) == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return happened ? look_at(*context) : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult Call::submit(Stream& stream, std::uint32_t operations,
                      const std::function<void(DeviceModel&)>& work) {
  Context* context = stream.context;
  const std::uint32_t queue = stream.model;
  if (operations > DeviceModel::kOps) return CUDA_ERROR_OUT_OF_MEMORY;  // no queue is so long
  for (;;) {
    {
      Machine::Lock lock(*driver_->machine);
      DeviceModel& device = model(lock, context->device);
      if (device.queued(queue) < kQueue && device.room(operations)) {
        work(device);
        return CUDA_SUCCESS;
      }
    }
    // Not for one place alone: the next caller would wait again at once.
    const CUresult result = wait(context, [&](DeviceModel& device) {
      return device.queued(queue) < kQueue * 3 / 4 && device.room(operations);
    });
    if (result != CUDA_SUCCESS) return result;
  }
}

}  // namespace sluice::emulator

using namespace sluice::emulator;

CUresult cuInit(unsigned flags) {
  const std::scoped_lock lock(making);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (the_driver == nullptr) return make_driver();
  return the_driver->forked ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = nullptr;
#define SLUICE_NAME(code, value) \
  if (error == (code)) *name = #code;
  SLUICE_CUDA_RESULTS(SLUICE_NAME)
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// The text is the name: no program can rely on the wording.
CUresult cuGetErrorString(CUresult error, const char** text) {
  return cuGetErrorName(error, text);
}

// Asked for by NVIDIA's own libraries alone; it is empty here.
CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_SUPPORTED;
}
