#include "tests/emulator/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/emulator/device_memory.h"
#include "wire/permit_nap.h"

namespace sluice::emulator {
namespace {
constexpr std::uint64_t kMagic = 0x534c5543454d5531;  // "SLUCEMU1"
constexpr Ns kSpin = 20'000;                          // a sleep may last so much longer
constexpr Ns kSpinAtOnce = 100'000;                   // then it yields the processor
constexpr Ns kLook = 1'000'000;                       // other processes may submit work

Ns monotonic() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// Field 22 of /proc/PID/stat; 0: there is no such process.
std::uint64_t start_ticks(std::int32_t pid) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char* at = std::strrchr(text, ')');  // a name may hold blanks and brackets
  if (at == nullptr || at[1] == 0 || at[2] == 'Z') return 0;
  std::uint64_t ticks = 0;
  for (int field = 2; at != nullptr && field < 22; ++field) at = std::strchr(at + 1, ' ');
  if (at == nullptr || std::sscanf(at, "%lu", &ticks) != 1) return 0;
  return ticks;
}

bool lives(const Process& process) {
  return start_ticks(process.pid) == process.start_ticks;
}

void make(MachineState& state, const MachineSpec& spec) {
  pthread_mutexattr_t shared;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&state.mutex, &shared);
  pthread_mutexattr_destroy(&shared);
  state.spec = spec;
  state.size = sizeof state;
  const Ns now = spec.virtual_clock ? 0 : monotonic();
  for (std::uint32_t i = 0; i < spec.devices; ++i) state.devices[i].reset(spec.spec_of(i), now);
  state.magic = kMagic;
}

// Sleeps for a short time only: a wake-up may reach a process that was stopped while it waited.
int lock_mutex(pthread_mutex_t& mutex) {
  for (;;) {
    const Ns until = monotonic() + kLook;
    const timespec deadline{until / 1'000'000'000, until % 1'000'000'000};
    const int result = pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline);
    if (result != ETIMEDOUT) return result;
  }
}

Process* free_process(MachineState& state) {
  for (Process& process : state.processes)
    if (!process.used) return &process;
  return nullptr;
}

bool is_stopped(std::int32_t pid) {
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(task.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(')');
    if (name_end == std::string::npos || text.compare(name_end, 3, ") T") != 0) return false;
  }
  return true;
}

// Maps the whole state, and makes it if the file is new. The file's lock keeps two processes from
// making it at once.
MachineState* map(int file, const MachineSpec& spec) {
  if (flock(file, LOCK_EX) != 0) return nullptr;
  struct stat status {};
  void* at = MAP_FAILED;
  if (fstat(file, &status) == 0 &&
      (status.st_size != 0 || ftruncate(file, sizeof(MachineState)) == 0))
    at = mmap(nullptr, sizeof(MachineState), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return nullptr;
  auto* state = static_cast<MachineState*>(at);
  if (state->magic == 0) make(*state, spec);
  flock(file, LOCK_UN);  // the map keeps the file open, and so its lock
  if (state->magic == kMagic && state->size == sizeof(MachineState)) return state;
  munmap(at, sizeof(MachineState));
  errno = EPROTO;
  return nullptr;
}

// As NVIDIA's device files are: whatever user programs run as.
int open_for_all(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file >= 0) (void)fchmod(file, 0666);  // whatever the umask; fails if it is another's
  return file;
}

}  // namespace

std::unique_ptr<Machine> Machine::open(const std::string& path, const MachineSpec& spec) {
  const int file = open_for_all(path);
  if (file < 0) return nullptr;
  MachineState* state = map(file, spec);
  close(file);
  if (state == nullptr) return nullptr;
  const int memory = open_for_all(path + ".memory");
  const auto size = static_cast<off_t>(state->spec.memory * kSpread * state->spec.devices);
  if (memory < 0 || ftruncate(memory, size) != 0) {
    if (memory >= 0) close(memory);
    munmap(state, sizeof *state);
    return nullptr;
  }
  return std::unique_ptr<Machine>(new Machine(state, memory));
}

Machine::~Machine() {
  munmap(state_, sizeof *state_);
  close(memory_);
}

Ns Machine::now() const {
  return state_->spec.virtual_clock ? state_->virtual_now : monotonic();
}

Machine::Lock::Lock(Machine& machine) : machine_(machine) {
  MachineState& state = *machine.state_;
  if (lock_mutex(state.mutex) == EOWNERDEAD) {
    machine.repair();
    pthread_mutex_consistent(&state.mutex);
  }
  const Ns now = machine.now();
  for (std::uint32_t i = 0; i < state.spec.devices; ++i) state.devices[i].advance(now);
}

Machine::Lock::~Lock() {
  pthread_mutex_unlock(&machine_.state_->mutex);
}

// A process was killed inside the lock.
void Machine::repair() {
  for (std::uint32_t i = 0; i < state_->spec.devices; ++i) state_->devices[i].repair();
  free_all_unheld(*state_, memory_);
}

bool Machine::wait(const std::function<bool(MachineState&)>& done) {
  Ns spinning_since = 0;
  for (;;) {
    std::optional<Ns> next;
    bool held = false;
    {
      Lock lock(*this);
      if (done(*lock)) return true;
      for (std::uint32_t i = 0; i < lock->spec.devices; ++i)
        if (const auto at = lock->devices[i].next_change())
          next = std::min(next.value_or(*at), *at);
      if (lock->spec.virtual_clock) {
        for (std::uint32_t i = 0; i < lock->spec.devices; ++i) held |= lock->devices[i].held();
        if (held) reap(*lock, memory_);  // a process that has ended runs no function
        if (!held && !next) return false;
        if (!held) lock->virtual_now = std::max(lock->virtual_now, *next);
      }
    }
    if (spec().virtual_clock) {
      if (held) sluice_nap(kSpin);
      continue;
    }
    const Ns now = monotonic();
    const Ns left = std::min(next.value_or(now + kLook), now + kLook) - now;
    if (spinning_since == 0) spinning_since = now;
    if (left < kSpin && now - spinning_since < kSpinAtOnce) continue;
    sluice_nap(static_cast<std::uint64_t>(std::max(left - kSpin, kSpin / 2)));
    spinning_since = 0;
  }
}

void Machine::sleep_until(Ns virtual_now) {
  Lock lock(*this);
  lock->virtual_now = std::max(lock->virtual_now, virtual_now);
  for (std::uint32_t i = 0; i < lock->spec.devices; ++i)
    lock->devices[i].advance(lock->virtual_now);
}

bool Machine::injections_waiting() const {
  return std::atomic_ref(state_->injections_waiting).load(std::memory_order_relaxed) != 0;
}

std::uint32_t Machine::join(std::uint32_t sm_permille) {
  const std::int32_t pid = getpid();
  const std::uint64_t ticks = start_ticks(pid);
  Lock lock(*this);
  Process* process = free_process(*lock);
  if (process == nullptr) {
    reap(*lock, memory_);
    process = free_process(*lock);
  }
  if (process == nullptr) return DeviceModel::kNone;
  process->pid = pid;
  process->start_ticks = ticks;
  process->sm_permille = sm_permille;
  process->client.fill(DeviceModel::kNone);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  process->used = true;
  return static_cast<std::uint32_t>(process - lock->processes.data());
}

void leave(MachineState& state, std::uint32_t process, int memory_file) {
  Process& p = state.processes[process];
  let_go_of_all(state, process, memory_file);
  for (std::uint32_t d = 0; d < state.spec.devices; ++d) {
    const std::uint32_t client = p.client[d];
    p.client[d] = DeviceModel::kNone;  // first: it is not removed twice
    if (client != DeviceModel::kNone) state.devices[d].remove_client(client);
  }
  p.used = false;
}

void reap(MachineState& state, int memory_file) {
  for (std::uint32_t i = 0; i < kProcesses; ++i)
    if (state.processes[i].used && !lives(state.processes[i])) leave(state, i, memory_file);
}

std::uint64_t memory_in_use(Machine& machine, std::uint32_t device) {
  const Machine::Lock lock(machine);
  reap(*lock, machine.memory_file());
  return memory_used(*lock, device);
}

bool stop(Machine& machine, std::int32_t pid) {
  const Machine::Lock lock(machine);
  if (kill(pid, SIGSTOP) != 0) return false;
  while (!is_stopped(pid)) sched_yield();
  return true;
}

bool inject(MachineState& state, const char* function, int result, std::uint32_t skip,
            std::uint32_t times, std::int32_t pid) {
  for (Injection& injection : state.injections) {
    if (injection.used) continue;
    injection = {.pid = pid, .result = result, .skip = skip, .times = times};
    std::strncpy(injection.function, function, sizeof injection.function - 1);
    injection.used = true;
    ++state.injections_waiting;
    return true;
  }
  return false;
}

}  // namespace sluice::emulator
