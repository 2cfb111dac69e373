// The processes on a device: under a slice, the slice's own alone, in every list that names
// processes. The real list is read into memory of ours, and the rows of the slice's processes are
// copied to the caller.
#include <stdlib.h>

#include "nvml/slice.h"

SLUICE_NVML(nvmlDeviceGetAccountingPids);
SLUICE_NVML(nvmlDeviceGetAccountingStats);
SLUICE_NVML(nvmlDeviceGetComputeRunningProcesses);
SLUICE_NVML(nvmlDeviceGetComputeRunningProcesses_v2);
SLUICE_NVML(nvmlDeviceGetComputeRunningProcesses_v3);
SLUICE_NVML(nvmlDeviceGetGraphicsRunningProcesses);
SLUICE_NVML(nvmlDeviceGetGraphicsRunningProcesses_v2);
SLUICE_NVML(nvmlDeviceGetGraphicsRunningProcesses_v3);
SLUICE_NVML(nvmlDeviceGetMPSComputeRunningProcesses);
SLUICE_NVML(nvmlDeviceGetMPSComputeRunningProcesses_v2);
SLUICE_NVML(nvmlDeviceGetMPSComputeRunningProcesses_v3);
SLUICE_NVML(nvmlDeviceGetProcessUtilization);
SLUICE_NVML(nvmlDeviceGetProcessesUtilizationInfo);
SLUICE_NVML(nvmlDeviceGetRunningProcessDetailList);

namespace sluice::hook::nvml {
namespace {

template <class Row>
unsigned pid_of(const Row& row) {
  return row.pid;
}
template <>
unsigned pid_of(const unsigned& row) {
  return row;
}

// Returns all rows of `ask(rows, count)`, in memory that the caller frees, their count, and what
// `ask` returned. Drivers of one release (530) write rows of 32 bytes where others write 24: the
// memory suffices for these, though they are not understood.
template <class Row, class Ask>
nvmlReturn_t all_rows(Ask&& ask, Row*& rows, unsigned& count) {
  constexpr size_t kRow = sizeof(Row) > 32 ? sizeof(Row) : 32;
  nvmlReturn_t result = NVML_ERROR_INSUFFICIENT_SIZE;
  rows = nullptr;
  // Processes may start between two calls.
  for (unsigned room = 64; room <= 4096 && result == NVML_ERROR_INSUFFICIENT_SIZE; room *= 4) {
    free(rows);
    rows = static_cast<Row*>(calloc(room, kRow));
    if (rows == nullptr) return NVML_ERROR_MEMORY;
    count = room;
    result = ask(rows, &count);
  }
  return result;
}

// Copies the rows of the slice's own processes as NVML does: `count` is the capacity, and then the
// number of rows.
template <class Row, class Ask>
nvmlReturn_t own_rows(nvmlDevice_t device, unsigned* count, Row* to, Ask&& ask) {
  if (!in_slice()) return ask(to, count);
  if (count == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  Row* rows = nullptr;
  unsigned found = 0, kept = 0;
  nvmlReturn_t result = all_rows(ask, rows, found);
  const int own = result == NVML_SUCCESS ? device_of(device) : -1;
  if (own >= 0) {
    const OwnProcesses processes(own);
    for (unsigned i = 0; i < found; ++i)
      if (processes.has(pid_of(rows[i]))) rows[kept++] = rows[i];
  }
  if (result == NVML_SUCCESS) {
    if (kept > 0 && (to == nullptr || *count < kept)) result = NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned i = 0; result == NVML_SUCCESS && i < kept; ++i) to[i] = rows[i];
    *count = kept;
  }
  free(rows);
  return result;
}

// The rows that say how busy a device was. NVML returns NOT_FOUND if there are none.
template <class Row, class Ask>
nvmlReturn_t own_samples(nvmlDevice_t device, unsigned* count, Row* to, Ask&& ask) {
  const nvmlReturn_t result = own_rows(device, count, to, ask);
  return result == NVML_SUCCESS && in_slice() && *count == 0 ? NVML_ERROR_NOT_FOUND : result;
}

}  // namespace
}  // namespace sluice::hook::nvml

using namespace sluice::hook::nvml;

extern "C" {

#define SLUICE_PROCESSES(name, Row)                                                               \
  SLUICE_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned* count, Row* to) {                \
    return own_rows(device, count, to,                                                            \
                    [device](Row* rows, unsigned* n) { return driver_##name(device, n, rows); }); \
  }
SLUICE_PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
SLUICE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_t)
SLUICE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
SLUICE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
SLUICE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_t)
SLUICE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
SLUICE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
SLUICE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_t)
SLUICE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)
SLUICE_PROCESSES(nvmlDeviceGetAccountingPids, unsigned)
#undef SLUICE_PROCESSES

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned pid,
                                                        nvmlAccountingStats_st* stats) {
  const int own = device_of(device);
  if (own >= 0 && !OwnProcesses(own).has(pid)) return NVML_ERROR_NOT_FOUND;
  return driver_nvmlDeviceGetAccountingStats(device, pid, stats);
}

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
                                                           nvmlProcessUtilizationSample_t* to,
                                                           unsigned* count,
                                                           unsigned long long last_seen) {
  return own_samples(device, count, to, [=](nvmlProcessUtilizationSample_t* rows, unsigned* n) {
    return driver_nvmlDeviceGetProcessUtilization(device, rows, n, last_seen);
  });
}

// The two that take a structure: one of an unknown version cannot be filtered.

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device,
                                                                 nvmlProcessDetailList_t* list) {
  if (!in_slice()) return driver_nvmlDeviceGetRunningProcessDetailList(device, list);
  if (list == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (list->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return own_rows(device, &list->numProcArrayEntries, list->procArray,
                  [&](nvmlProcessDetail_v1_t* rows, unsigned* n) {
                    nvmlProcessDetailList_t all{list->version, list->mode, *n, rows};
                    const nvmlReturn_t result =
                        driver_nvmlDeviceGetRunningProcessDetailList(device, &all);
                    *n = all.numProcArrayEntries;
                    return result;
                  });
}

SLUICE_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(
    nvmlDevice_t device, nvmlProcessesUtilizationInfo_t* samples) {
  if (!in_slice()) return driver_nvmlDeviceGetProcessesUtilizationInfo(device, samples);
  if (samples == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
  if (samples->version != nvmlProcessesUtilizationInfo_v1)
    return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  return own_samples(
      device, &samples->processSamplesCount, samples->procUtilArray,
      [&](nvmlProcessUtilizationInfo_v1_t* rows, unsigned* n) {
        nvmlProcessesUtilizationInfo_t all{samples->version, *n, samples->lastSeenTimeStamp, rows};
        const nvmlReturn_t result = driver_nvmlDeviceGetProcessesUtilizationInfo(device, &all);
        *n = all.processSamplesCount;
        return result;
      });
}

}  // extern "C"
