#include "nvml/slice.h"

#include <stdlib.h>
#include <string.h>

#include "hook/named_devices.h"
#include "hook/readable.h"
#include "wire/permit_attach.h"
#include "wire/permit_socket.h"

SLUICE_NVML(nvmlDeviceGetHandleByUUID);
SLUICE_NVML(nvmlDeviceGetUUID);

namespace sluice::hook::nvml {
namespace {

constexpr uint64_t kAnswerNs = 1000 * SLUICE_MS_NS;

// The daemon's last answer. A reader may see one word of an answer and one of the next.
SliceMemory last_seen[kDevices];

// The environment as it was when first read: a program may change it later.
struct Remembered {
  const char* (*ask)();
  const char* value;

  const char* get() {
    const char* known = __atomic_load_n(&value, __ATOMIC_RELAXED);
    if (known != nullptr) return known;
    known = ask();
    __atomic_store_n(&value, known, __ATOMIC_RELAXED);
    return known;
  }
};
const char* named_devices() {
  return getenv("SLUICE_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
}
Remembered visible_devices{named_devices, nullptr};  // UUIDs, a comma between two
Remembered permit_socket{sluice_permit_socket, nullptr};

// Asks the daemon for the slice's memory there. Returns false without an answer; `refused`: it said
// no.
bool look(int device, sluice_memory_seen& seen, bool& refused) {
  sluice_memory_look question{};
  question.head = {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, SLUICE_MEMORY_LOOK};
  question.device = static_cast<uint32_t>(device);
  const int socket = sluice_call_daemon(permit_socket.get(), &question, sizeof question);
  refused = false;
  if (socket < 0) return false;
  const uint64_t begin = sluice_clock(CLOCK_MONOTONIC);
  uint64_t now = begin;
  while (now - begin < kAnswerNs && !readable(socket, begin + kAnswerNs - now))
    now = sluice_clock(CLOCK_MONOTONIC);
  int fds[3];
  const long size = sluice_receive(socket, &seen, sizeof seen, fds);
  for (const int fd : fds)
    if (fd >= 0) close(fd);
  close(socket);
  if (size < static_cast<long>(sizeof seen.head)) return false;
  refused = seen.head.type == SLUICE_REFUSED;
  return size == sizeof seen && seen.head.type == SLUICE_MEMORY_SEEN &&
         seen.processes <= SLUICE_MEMORY_PROCESSES;
}

bool look_and_remember(int device, sluice_memory_seen& seen) {
  bool refused = false;
  const int saved_errno = errno;
  const bool known = look(device, seen, refused);
  errno = saved_errno;
  if (!known && !refused) return false;
  __atomic_store_n(&last_seen[device].limit, known ? seen.limit : 0, __ATOMIC_RELAXED);
  __atomic_store_n(&last_seen[device].held, known ? seen.held : 0, __ATOMIC_RELAXED);
  return known;
}

}  // namespace

int device_count() {
  int count = 0;
  find_device(visible_devices.get(), [&](int n, const char*, size_t) {
    count = n + 1;
    return false;
  });
  return count;
}

nvmlReturn_t handle_of(unsigned device, nvmlDevice_t* handle) {
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
  const int found = find_device(visible_devices.get(), [&](int n, const char* text, size_t length) {
    if (static_cast<unsigned>(n) != device || length >= sizeof uuid) return false;
    memcpy(uuid, text, length);
    uuid[length] = 0;
    return true;
  });
  return found < 0 ? NVML_ERROR_INVALID_ARGUMENT : driver_nvmlDeviceGetHandleByUUID(uuid, handle);
}

int device_of(nvmlDevice_t handle) {
  char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE];
  if (!in_slice() || driver_nvmlDeviceGetUUID(handle, uuid, sizeof uuid) != NVML_SUCCESS) return -1;
  return number_of(visible_devices.get(), uuid);
}

SliceMemory memory_of(int device) {
  sluice_memory_seen seen;
  look_and_remember(device, seen);
  return {__atomic_load_n(&last_seen[device].limit, __ATOMIC_RELAXED),
          __atomic_load_n(&last_seen[device].held, __ATOMIC_RELAXED)};
}

OwnProcesses::OwnProcesses(int device) : self_(static_cast<uint32_t>(getpid())), count_(0) {
  sluice_memory_seen seen;
  if (!look_and_remember(device, seen)) return;
  count_ = seen.processes;
  memcpy(pids_, seen.pids, sizeof pids_);
}

bool OwnProcesses::has(unsigned pid) const {
  for (uint32_t i = 0; i < count_; ++i)
    if (pids_[i] == pid && pid != 0) return true;
  return pid == self_;
}

}  // namespace sluice::hook::nvml
