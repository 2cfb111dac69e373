// An unmodified program that reads NVML's answers, as nvidia-smi and others do: all of them, as
// JSON, for each line that it receives. Its arguments are the UUID and the bus address of a device
// to look up.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "abi/nvml_abi.h"

namespace {

using nlohmann::json;

// Returns the pids of a list, read as NVML wants it: first the count, then all.
template <class Row, class Ask>
json pids_of(Ask ask) {
  unsigned count = 0;
  nvmlReturn_t result = ask(&count, nullptr);
  std::vector<Row> rows(count + 1);
  if (result == NVML_ERROR_INSUFFICIENT_SIZE) result = ask(&count, rows.data());
  if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_FOUND) return static_cast<int>(result);
  json pids = json::array();
  for (unsigned i = 0; result == NVML_SUCCESS && i < count; ++i) pids.push_back(rows[i].pid);
  return pids;
}

json describe(nvmlDevice_t device) {
  char uuid[NVML_DEVICE_UUID_BUFFER_SIZE] = "";
  unsigned index = ~0u;
  nvmlMemory_t memory{};
  nvmlMemory_v2_t second{.version = nvmlMemory_v2};
  nvmlDeviceGetUUID(device, uuid, sizeof uuid);
  nvmlDeviceGetIndex(device, &index);
  nvmlDeviceGetMemoryInfo(device, &memory);
  nvmlDeviceGetMemoryInfo_v2(device, &second);
  return {{"uuid", uuid},
          {"index", index},
          {"memory", {memory.total >> 20, memory.used >> 20, memory.free >> 20}},
          {"second", {second.total >> 20, second.used >> 20, second.free >> 20}},
          {"processes", pids_of<nvmlProcessInfo_t>([&](unsigned* count, nvmlProcessInfo_t* rows) {
             return nvmlDeviceGetComputeRunningProcesses_v3(device, count, rows);
           })},
          {"older", pids_of<nvmlProcessInfo_v1_t>([&](unsigned* count, nvmlProcessInfo_v1_t* rows) {
             return nvmlDeviceGetComputeRunningProcesses(device, count, rows);
           })},
          {"samples", pids_of<nvmlProcessUtilizationSample_t>(
                          [&](unsigned* count, nvmlProcessUtilizationSample_t* rows) {
                            return nvmlDeviceGetProcessUtilization(device, rows, count, 0);
                          })}};
}

}  // namespace

int main(int, char** words) {
  nvmlReturn_t result = nvmlInit_v2();
  for (std::string line; std::getline(std::cin, line);) {
    unsigned count = 0;
    result = result == NVML_SUCCESS ? nvmlDeviceGetCount_v2(&count) : result;
    json devices = json::array();
    nvmlDevice_t device = nullptr;
    for (unsigned i = 0; i < count; ++i)
      if (nvmlDeviceGetHandleByIndex_v2(i, &device) == NVML_SUCCESS)
        devices.push_back(describe(device));
    std::cout << json{{"result", result},
                      {"devices", devices},
                      {"beyond", nvmlDeviceGetHandleByIndex_v2(count, &device)},
                      {"by_uuid", nvmlDeviceGetHandleByUUID(words[1], &device)},
                      {"by_bus", nvmlDeviceGetHandleByPciBusId_v2(words[2], &device)}}
              << std::endl;
  }
}
