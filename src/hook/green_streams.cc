#include "hook/green_streams.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "hook/captures.h"
#include "hook/launch_gate.h"
#include "hook/lock.h"
#include "hook/primary_context.h"

SLUICE_DRIVER(cuCtxGetCurrent);
SLUICE_DRIVER(cuDevResourceGenerateDesc);
SLUICE_DRIVER(cuDevSmResourceSplitByCount);
SLUICE_DRIVER(cuDeviceGetDevResource);
SLUICE_DRIVER(cuEventCreate);
SLUICE_DRIVER(cuEventDestroy_v2);
SLUICE_DRIVER(cuGreenCtxCreate);
SLUICE_DRIVER(cuGreenCtxDestroy);
SLUICE_DRIVER(cuGreenCtxStreamCreate);
SLUICE_DRIVER(cuStreamDestroy_v2);
SLUICE_DRIVER(cuStreamGetPriority);
SLUICE_DRIVER(cuStreamQuery);

namespace sluice::hook {
namespace {

constexpr unsigned kGroups = 64;

GreenStreams* all_streams[kDevices];

// The groups that belong to the range: neighbouring ranges have none in common. At least one.
void groups_of(SmRange range, unsigned groups, unsigned* first, unsigned* count) {
  *first = sluice_sm_begin(range) * groups / 1000;
  const unsigned end = sluice_sm_end(range) * groups / 1000;
  if (*first >= groups) *first = groups - 1;
  *count = end > *first ? end - *first : 1;
}

}  // namespace

Twin* GreenStreams::take(CUdevice device, CUstream stream, SmRange range) {
  const bool whole = sluice_sm_is_whole(range);
  if (whole && __atomic_load_n(&current_, __ATOMIC_RELAXED) == 0 &&
      __atomic_load_n(&old_, __ATOMIC_RELAXED) == 0)
    return nullptr;
  CUcontext context = nullptr;
  if (driver_cuCtxGetCurrent(&context) != CUDA_SUCCESS) return nullptr;
  const uint64_t id = id_of_current_context();
  const Lock lock(mutex_);
  if (context != primary_ || id != primary_id_) {
    if (captures_open() || context != primary_of(device)) return nullptr;
    forget();
    primary_ = context;
    primary_id_ = id;
  }
  if (!captures_open()) {
    if (range != range_) change(device, range);
    if (old_ != 0) end_idle_parts();
  }
  if (current_ == 0) return nullptr;
  const bool own = stream == CU_STREAM_PER_THREAD;
  Twin* twin = twin_of(stream, own ? static_cast<uint32_t>(syscall(SYS_gettid)) : 0);
  if (twin != nullptr) __atomic_add_fetch(&twin->users, 1, __ATOMIC_RELAXED);
  return twin;
}

// To the SMs of another range; a later launch does it where too many parts still run out.
void GreenStreams::change(CUdevice device, SmRange range) {
  uint32_t free = 0;
  while (free < kParts && parts_[free].green != nullptr) ++free;
  const bool whole = sluice_sm_is_whole(range);
  if (!whole && free == kParts) return;
  range_ = range;
  const CUresult result = whole ? CUDA_SUCCESS : make_part(device, range, parts_[free]);
  const uint32_t made = whole || result != CUDA_SUCCESS ? 0 : free + 1;
  __atomic_store_n(&refusal_, result, __ATOMIC_RELAXED);
  if (current_ != 0) __atomic_add_fetch(&old_, 1, __ATOMIC_RELAXED);
  __atomic_store_n(&current_, made, __ATOMIC_RELAXED);
}

CUresult GreenStreams::make_part(CUdevice device, SmRange range, Part& part) {
  CUdevResource all{}, groups[kGroups];
  unsigned count = kGroups, first = 0, wanted = 0;
  CUdevResourceDesc description = nullptr;
  CUresult result = driver_cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM);
  if (result == CUDA_SUCCESS)
    result = driver_cuDevSmResourceSplitByCount(groups, &count, &all, nullptr, 0,
                                                all.sm.minSmPartitionSize);
  if (result != CUDA_SUCCESS) return result;
  if (count == 0) return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
  groups_of(range, count, &first, &wanted);
  result = driver_cuDevResourceGenerateDesc(&description, groups + first, wanted);
  if (result != CUDA_SUCCESS) return result;
  result = driver_cuGreenCtxCreate(&part.green, description, device, CU_GREEN_CTX_DEFAULT_STREAM);
  if (result != CUDA_SUCCESS) {
    part.green = nullptr;
    return result;
  }
  part.twins = 0;
  return CUDA_SUCCESS;
}

// Known, new, or one that was another's and has nothing left to run. Null: all are at work.
Twin* GreenStreams::twin_of(CUstream stream, uint32_t thread) {
  Twin* free = nullptr;
  for (Twin& twin : twins_) {
    if (twin.stream == nullptr) {
      if (free == nullptr) free = &twin;
    } else if (twin.of == stream && twin.thread == thread && twin.part + 1 == current_) {
      return &twin;
    }
  }
  if (captures_open()) return nullptr;
  if (free != nullptr) {
    if (!make_twin(*free, stream)) return nullptr;
  } else {
    for (Twin& twin : twins_)
      if (free == nullptr && twin.part + 1 == current_ &&
          __atomic_load_n(&twin.users, __ATOMIC_ACQUIRE) == 0 &&
          driver_cuStreamQuery(twin.stream) == CUDA_SUCCESS)
        free = &twin;
    if (free == nullptr) return nullptr;
  }
  free->of = stream;
  free->thread = thread;
  return free;
}

bool GreenStreams::make_twin(Twin& twin, CUstream stream) {
  int priority = 0;
  driver_cuStreamGetPriority(stream, &priority);
  twin = {};
  twin.part = current_ - 1;
  Part& part = parts_[twin.part];
  if (driver_cuEventCreate(&twin.fork, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
      driver_cuEventCreate(&twin.join, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
      driver_cuGreenCtxStreamCreate(&twin.stream, part.green, CU_STREAM_NON_BLOCKING, priority) ==
          CUDA_SUCCESS) {
    ++part.twins;
    return true;
  }
  if (twin.fork != nullptr) driver_cuEventDestroy_v2(twin.fork);
  if (twin.join != nullptr) driver_cuEventDestroy_v2(twin.join);
  twin = {};
  return false;
}

void GreenStreams::end_twin(Twin& twin) {
  driver_cuStreamDestroy_v2(twin.stream);
  driver_cuEventDestroy_v2(twin.fork);
  driver_cuEventDestroy_v2(twin.join);
  --parts_[twin.part].twins;
  twin = {};
}

// Of those that are not current: twins whose work has run, and parts without twins.
void GreenStreams::end_idle_parts() {
  for (Twin& twin : twins_)
    if (twin.stream != nullptr && twin.part + 1 != current_ &&
        __atomic_load_n(&twin.users, __ATOMIC_ACQUIRE) == 0 &&
        driver_cuStreamQuery(twin.stream) != CUDA_ERROR_NOT_READY)
      end_twin(twin);
  for (uint32_t i = 0; i < kParts; ++i) {
    Part& part = parts_[i];
    if (part.green == nullptr || i + 1 == current_ || part.twins != 0) continue;
    driver_cuGreenCtxDestroy(part.green);
    part = {};
    __atomic_sub_fetch(&old_, 1, __ATOMIC_RELAXED);
  }
}

void GreenStreams::end_all() {
  const Lock lock(mutex_);
  for (Twin& twin : twins_)
    if (twin.stream != nullptr) end_twin(twin);
  for (Part& part : parts_)
    if (part.green != nullptr) driver_cuGreenCtxDestroy(part.green);
  forget();
}

// What there was went with its context.
void GreenStreams::forget() {
  for (Twin& twin : twins_) twin = {};
  for (Part& part : parts_) part = {};
  __atomic_store_n(&current_, 0u, __ATOMIC_RELAXED);
  __atomic_store_n(&old_, 0u, __ATOMIC_RELAXED);
  range_ = 0;
}

GreenStreams* green_streams(CUdevice device) {
  GreenStreams*& of_device = all_streams[device];
  GreenStreams* known = __atomic_load_n(&of_device, __ATOMIC_ACQUIRE);
  if (known != nullptr) return known;
  auto* made = static_cast<GreenStreams*>(sluice_wiped_memory(sizeof(GreenStreams)));
  if (made == nullptr) return nullptr;
  if (__atomic_compare_exchange_n(&of_device, &known, made, false, __ATOMIC_ACQ_REL,
                                  __ATOMIC_ACQUIRE))
    return made;
  munmap(made, sizeof(GreenStreams));
  return known;
}

void end_green_streams(CUdevice device) {
  if (device < 0 || device >= kDevices) return;
  GreenStreams* known = __atomic_load_n(&all_streams[device], __ATOMIC_ACQUIRE);
  if (known != nullptr) known->end_all();
}

}  // namespace sluice::hook
