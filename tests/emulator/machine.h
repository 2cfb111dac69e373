// The emulated machine as one process has it: the mapped state, the lock around it, the clock, and
// the processes that use it.
//
// A process that is stopped inside the lock holds up all others; stop() stops one outside of it.
// Any thread may call. There is no server: whoever takes the lock first lets the devices run until
// now. A process that died holding it is noticed by the next (a robust mutex); one that died is
// noticed by whoever looks for room (reap): its memory is free, what it has queued runs on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/emulator/machine_state.h"

namespace sluice::emulator {

class Machine {
 public:
  // Opens the machine that lives in `path` (and `path`.memory), made by the first who comes. Null:
  // errno says why not.
  static std::unique_ptr<Machine> open(const std::string& path, const MachineSpec& spec);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The state, for as long as this lives.
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

  // Waits until `done`, which is asked under the lock. A virtual clock is moved from change to
  // change, and stands while a function of a program's runs; false: nothing is left that would
  // change anything.
  bool wait(const std::function<bool(MachineState&)>& done);
  // A test's: moves the virtual clock.
  void sleep_until(Ns virtual_now);

  // This process among the others; kNone: there are too many.
  std::uint32_t join(std::uint32_t sm_permille);
  // Without the lock: whether some call is to fail.
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
// Under the lock: what a process holds is given back; its queues run out.
void leave(MachineState& state, std::uint32_t process, int memory_file);
// Under the lock: the place that `take` finds (kNone: none), if need be one of those who have
// ended.
template <typename Take>
std::uint32_t find_room(MachineState& state, int memory_file, Take&& take) {
  const std::uint32_t place = take();
  if (place != DeviceModel::kNone) return place;
  reap(state, memory_file);
  return take();
}

// Bytes of a device's memory that those who live have.
std::uint64_t memory_in_use(Machine& machine, std::uint32_t device);

// Stops a process, all its threads, while it is outside the lock. False: there is no such process.
bool stop(Machine& machine, std::int32_t pid);

// Under the lock: from its `skip`-th call on, `times` calls of a function fail; in every process,
// or in one. False: too many already wait.
bool inject(MachineState& state, const char* function, int result, std::uint32_t skip = 0,
            std::uint32_t times = 1, std::int32_t pid = 0);

}  // namespace sluice::emulator
