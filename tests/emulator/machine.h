// The emulated machine as one process has it: the mapped state, the lock around it, the clock, and
// the processes that use it.
//
// A process that is stopped inside the lock delays all others; stop() stops one outside of it.
// Any thread may call. There is no server: a caller that takes the lock first advances the devices
// to now. The next caller repairs the state if a process died inside the lock (a robust mutex). A
// dead process is found when an allocation needs memory (reap): its memory is freed, and what it
// has queued runs on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/emulator/machine_state.h"

namespace sluice::emulator {

class Machine {
 public:
  // Opens the machine in the file `path` (and `path`.memory), and makes it if there is none.
  // Returns nullptr with errno set if it cannot.
  static std::unique_ptr<Machine> open(const std::string& path, const MachineSpec& spec);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Holds the machine's lock, and gives access to its state.
  class Lock {
   public:
    explicit Lock(Machine& machine);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    MachineState* operator->() const { return machine_.state_; }
    MachineState& operator*() const { return *machine_.state_; }

   private:
    Machine& machine_;
  };

  // Waits until `done`, which is called under the lock. A virtual clock is moved from change to
  // change, and stands while a function of a program's runs. Returns false if no further change can
  // come.
  bool wait(const std::function<bool(MachineState&)>& done);
  // Moves the virtual clock; for tests.
  void sleep_until(Ns virtual_now);

  // Enters this process into the table; kNone if the table is full.
  std::uint32_t join(std::uint32_t sm_permille);
  // Returns whether inject() has any call left to fail; needs no lock.
  bool injections_waiting() const;
  int memory_file() const { return memory_; }
  const MachineSpec& spec() const { return state_->spec; }

 private:
  Machine(MachineState* state, int memory) : state_(state), memory_(memory) {}
  Ns now() const;
  void repair();

  MachineState* state_;
  int memory_;
};

// Under the lock: forgets the processes that have ended.
void reap(MachineState& state, int memory_file);
// Under the lock: frees what a process holds; its queued work runs on.
void leave(MachineState& state, std::uint32_t process, int memory_file);
// Under the lock: returns the place that `take` finds, if need be after reaping processes that have
// ended; kNone if there is none.
template <typename Take>
std::uint32_t find_room(MachineState& state, int memory_file, Take&& take) {
  const std::uint32_t place = take();
  if (place != DeviceModel::kNone) return place;
  reap(state, memory_file);
  return take();
}

// Returns the bytes of a device's memory that live processes hold.
std::uint64_t memory_in_use(Machine& machine, std::uint32_t device);

// Stops a process, all its threads, while it is outside the lock. Returns false if there is none.
bool stop(Machine& machine, std::int32_t pid);

// Under the lock: from its `skip`-th call on, `times` calls of a function fail; in every process,
// or in one. False: too many already wait.
bool inject(MachineState& state, const char* function, int result, std::uint32_t skip = 0,
            std::uint32_t times = 1, std::int32_t pid = 0);

}  // namespace sluice::emulator
