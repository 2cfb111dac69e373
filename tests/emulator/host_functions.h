// The program's functions in streams: a thread of the process runs them, one at a time, as the
// device reaches them. Work behind them waits. Guarded by the process's lock (driver.h), which is
// free while one runs.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "tests/emulator/handles.h"

namespace sluice::emulator {

struct Driver;

// Of the two kinds one.
struct HostFunction {
  CUhostFn function = nullptr;
  CUstreamCallback callback = nullptr;  // runs also where an error has ended the context
  CUstream stream = nullptr;            // its argument
  void* user = nullptr;
  std::uint32_t device = 0;  // the machine's
  Ticket place;
};

class HostFunctions {
 public:
  // The machine's lock is held.
  void add(Driver& driver, DeviceModel& device, std::uint32_t stream, HostFunction function);

  // Returns whether this thread runs one now, and so may not call the driver.
  static bool running();

 private:
  [[noreturn]] void run(Driver& driver);
  bool take_next(Driver& driver, HostFunction* next, CUresult* status);

  std::condition_variable some_;

  bool has_thread_ = false;
  std::vector<HostFunction> waiting_;
};

}  // namespace sluice::emulator
