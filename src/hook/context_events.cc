#include "hook/context_events.h"

#include <string.h>

#include "hook/driver.h"
#include "hook/hooks.h"
#include "wire/permit.h"

SLUICE_DRIVER(cuCtxGetId);
SLUICE_DRIVER(cuEventCreate);
SLUICE_DRIVER(cuEventElapsedTime);
SLUICE_DRIVER(cuEventQuery);
SLUICE_DRIVER(cuEventRecord);

namespace sluice::hook {

namespace {

uint64_t id_of(CUcontext context) {
  unsigned long long id = 0;
  return driver_cuCtxGetId(context, &id) == CUDA_SUCCESS ? id : 0;
}

}  // namespace

uint64_t id_of_current_context() {
  return id_of(nullptr);
}

void ContextEvents::become(CUcontext context, uint64_t id) {
  memset(this, 0, sizeof *this);
  context_ = context;
  id_ = id;
}

bool ContextEvents::may_be_looked_at() const {
  return context_ != nullptr && ending_ == 0 && id_ != 0 && id_of(context_) == id_;
}

CUevent ContextEvents::record(CUstream stream) {
  if (!works()) return nullptr;
  CUevent event = nullptr;
  if (spares_ > 0) {
    event = spare_[--spares_];
  } else if (driver_cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
    refusals_ = kRefusals;
    return nullptr;
  }
  if (driver_cuEventRecord(event, stream) == CUDA_SUCCESS) {
    refusals_ = 0;
    return event;
  }
  give_back(event);
  ++refusals_;
  return nullptr;
}

ContextEvents::State ContextEvents::look(CUevent event) {
  const CUresult result = driver_cuEventQuery(event);
  if (result == CUDA_SUCCESS) return State::kReached;
  if (result == CUDA_ERROR_NOT_READY) return State::kPending;
  refusals_ = kRefusals;
  return State::kLost;
}

// A float of milliseconds: exact to a nanosecond within 10 ms, to a tenth of a microsecond within a
// second.
uint64_t ContextEvents::between_ns(CUevent first, CUevent second) {
  float ms = 0;
  if (driver_cuEventElapsedTime(&ms, first, second) != CUDA_SUCCESS || !(ms > 0)) return 0;
  return static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
}

// Beyond kSpare it is the driver's until its context ends.
void ContextEvents::give_back(CUevent event) {
  if (event != nullptr && spares_ < kSpare) spare_[spares_++] = event;
}

}  // namespace sluice::hook
