/* An NVML of one GPU that misbehaves in ways in which the emulated one does not: it is slow with
 * the processes' use, reports the memory once, and its first event is of a GPU that it has not
 * named. For tests only. */
#define _GNU_SOURCE
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "abi/nvml_abi.h"

struct nvmlDevice_st {
  const char* uuid;
};
static struct nvmlDevice_st named = {"GPU-named"}, unnamed = {"GPU-unnamed"};

/* When it was asked of processes first, and when it had last stamped an answer, by
 * CLOCK_MONOTONIC. */
uint64_t odd_nvml_first_ns, odd_nvml_asked_ns;

/* Questions and answers since it was begun. */
static int questions, answers, events, memories;

static uint64_t now_ns(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

nvmlReturn_t nvmlInit_v2(void) {
  questions = answers = events = memories = 0;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlShutdown(void) {
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = &named;
  return index == 0 ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned size) {
  snprintf(uuid, size, "%s", device->uuid);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned size) {
  return nvmlDeviceGetUUID(device, name, size);
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  (void)device;
  *memory = (nvmlMemory_t){1 << 30, 1 << 29, 1 << 29};
  return memories++ == 0 ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

/* Reports no use at the first question, answers twice, and then reports no use again. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                             nvmlProcessUtilizationSample_t* samples,
                                             unsigned* count, unsigned long long since) {
  (void)device, (void)since;
  *count = 1;
  if (questions++ == 0) {
    odd_nvml_first_ns = now_ns(CLOCK_MONOTONIC);
    return NVML_ERROR_NOT_FOUND;
  }
  if (answers == 2) return NVML_ERROR_NOT_FOUND;
  if (samples == NULL) return NVML_ERROR_INSUFFICIENT_SIZE;
  *samples = (nvmlProcessUtilizationSample_t){
      .pid = (unsigned)getpid(), .timeStamp = now_ns(CLOCK_REALTIME) / 1000, .smUtil = 50};
  odd_nvml_asked_ns = now_ns(CLOCK_MONOTONIC);
  poll(NULL, 0, 10);
  ++answers;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  *set = (nvmlEventSet_t)&named;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  (void)set;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
  (void)device, (void)types, (void)set;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data, unsigned timeout_ms) {
  (void)set;
  if (events == 2) {
    poll(NULL, 0, (int)timeout_ms);
    return NVML_ERROR_TIMEOUT;
  }
  *data = (nvmlEventData_t){.device = events == 0 ? &unnamed : &named,
                            .eventType = nvmlEventTypeXidCriticalError,
                            .eventData = 79};
  ++events;
  return NVML_SUCCESS;
}
