#include "hook/context_events.h"

#include <string.h>

#include "hook/driver.h"
#include "hook/hooks.h"
#include "wire/permit.h"

SLUICE_DRIVER(cuCtxGetId);
SLUICE_DRIVER(cuEventCreate);
SLUICE_DRIVER(cuEventDestroy_v2);
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
  keep(event);
  ++refusals_;
  return nullptr;
}

ContextEvents::State ContextEvents::look(CUevent event, uint64_t recorded, uint64_t* when) {
  const CUresult result = driver_cuEventQuery(event);
  if (result == CUDA_ERROR_NOT_READY) return State::kPending;
  if (result != CUDA_SUCCESS) {
    refusals_ = kRefusals;
    return State::kLost;
  }
  *when = when_reached(event, recorded, sluice_clock(CLOCK_MONOTONIC));
  return State::kReached;
}

bool ContextEvents::pending(CUevent event) {
  return driver_cuEventQuery(event) == CUDA_ERROR_NOT_READY;
}

void ContextEvents::give_back(CUevent event) {
  if (spares_ < kSpare) spare_[spares_++] = event;
}

// An event says how long after another it was reached, in a float of milliseconds: exact to a tenth
// of a microsecond within a second, so the other is a recent one. The first is taken to have been
// reached when it was recorded, as it was in an idle stream; whenever one turns out to be earlier
// than its recording, or later than now, all were: they are moved. So the line is early for a while
// rather than late, and a move later leaves gaps where one earlier would have stretches overlap.
uint64_t ContextEvents::when_reached(CUevent event, uint64_t recorded, uint64_t now) {
  constexpr int64_t kRecent = 1'000'000'000;
  float ms = 0;
  if (reference_ == nullptr || driver_cuEventElapsedTime(&ms, reference_, event) != CUDA_SUCCESS) {
    if (reference_ != nullptr) keep(reference_);
    reference_ = event;
    return reference_ns_ = recorded;
  }
  const auto since = static_cast<int64_t>(static_cast<double>(ms) * 1e6);
  const uint64_t at = reference_ns_ + static_cast<uint64_t>(since);
  const uint64_t possible = at < recorded ? recorded : at > now ? now : at;
  reference_ns_ += possible - at;
  if (since < kRecent) {
    keep(event);
    return possible;
  }
  keep(reference_);
  reference_ = event;
  return reference_ns_ = possible;
}

void ContextEvents::keep(CUevent event) {
  if (spares_ < kSpare)
    spare_[spares_++] = event;
  else
    driver_cuEventDestroy_v2(event);
}

}  // namespace sluice::hook
