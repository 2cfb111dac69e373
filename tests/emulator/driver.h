// The emulated driver in one process, and what every call of it does first and last. Only the
// sources of emulated/libcuda.so.1 include this.
//
// One lock guards the process's objects; the machine's lock is taken inside it, for a short time. A
// call that waits releases the first one meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/emulator/handles.h"
#include "tests/emulator/host_functions.h"
#include "tests/emulator/machine.h"

namespace sluice::emulator {

inline constexpr int kDriverVersion = 13000;
inline constexpr std::uint32_t kQueue =
    1024;  // launches that a stream takes before its caller waits

enum class DefaultStream { kLegacy, kPerThread };

struct Driver {
  std::mutex mutex;
  std::unique_ptr<Machine> machine;
  std::uint32_t process = 0;           // in the machine's table
  std::vector<std::uint32_t> visible;  // the machine's devices, by CUdevice
  bool forked = false;                 // the child of a process that called cuInit cannot use it

  Table<Context> contexts;
  Table<Module> modules;
  Table<Function> functions;
  Table<Stream> streams;
  Table<Event> events;
  Table<Graph> graphs;
  Table<GraphExec> execs;
  Table<Pool> pools;
  Ranges ranges;
  GraphMemory graph_memory;
  HostFunctions host_functions;
  std::map<std::uint64_t, std::uint64_t> reserved;  // addresses for maps: begin → bytes
  struct Primary {
    Context* context = nullptr;
    unsigned uses = 0, flags = 0;
  };
  std::vector<Primary> primaries;
  std::vector<Pool*> default_pools, current_pools;
  std::map<Context*, Stream*> legacy;                      // each context's legacy stream
  std::map<std::pair<Context*, int>, Stream*> per_thread;  // and one for each thread
  std::vector<std::weak_ptr<Capture>> captures;
  std::uint32_t groups = 0;
  std::uint64_t capture_ids = 0;

  std::uint32_t in_machine(CUdevice device) const { return visible[device]; }
  std::uint32_t sms_of(const Stream& stream) const {
    return machine->spec().spec_of(in_machine(stream.context->device)).sms;
  }
  bool has(CUdevice device) const {
    return device >= 0 && static_cast<std::size_t>(device) < visible.size();
  }
};

// One call of an entry point. Its construction finds whether it is refused: no cuInit, an injected
// error, no current context, a context that an error has ended.
class Call {
 public:
  enum Needs { kDriver, kContext };
  explicit Call(const char* function, Needs needs = kContext);

  CUresult refused() const { return refused_; }
  // The same, of a call that is about a device.
  CUresult refused(CUdevice device) const {
    if (refused_ != CUDA_SUCCESS) return refused_;
    return driver_->has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  }
  Driver& driver() const { return *driver_; }
  // The current context.
  Context* context() const { return context_; }
  DeviceModel& model(const Machine::Lock& lock, CUdevice device) const {
    return lock->devices[driver_->in_machine(device)];
  }

  // Waits in device time; the process's lock is free meanwhile. Returns an error that the context
  // has by then.
  CUresult wait(Context* context, const std::function<bool(DeviceModel&)>& done);
  // Submits work to a stream, once its queue takes `operations` more. Returns an error of the
  // context.
  CUresult submit(Stream& stream, std::uint32_t operations,
                  const std::function<void(DeviceModel&)>& work);

 private:
  CUresult injected(const char* function);
  CUresult look_at(Context& context);

  Driver* driver_ = nullptr;
  Context* context_ = nullptr;
  std::unique_lock<std::mutex> lock_;
  CUresult refused_ = CUDA_SUCCESS;
};

// The driver of this process; null before cuInit.
Driver* driver_of_process();
// The contexts that this thread has pushed; the last is current.
std::vector<Context*>& context_stack();
int thread_id();

// Returns the stream that a handle means in the current context, or nullptr.
Stream* stream_of(Call& call, CUstream handle, DefaultStream which);
Stream* make_stream(Call& call, Context& context, StreamKind kind, unsigned flags, int priority);

// A use of a device's primary context, which the first makes and the last ends.
CUresult retain_primary(Call& call, CUdevice device, Context** primary);
void release_primary(Call& call, CUdevice device);

}  // namespace sluice::emulator

// An entry point in both its variants; `which` says what its stream 0 is.
#define SLUICE_BOTH(function, suffix, parameters, ...)                                   \
  CUresult function parameters {                                                         \
    [[maybe_unused]] constexpr auto which = sluice::emulator::DefaultStream::kLegacy;    \
    __VA_ARGS__                                                                          \
  }                                                                                      \
  extern "C" {                                                                           \
  __attribute__((visibility("default"))) SLUICE_CUDA_VARIANT(function, suffix);          \
  }                                                                                      \
  CUresult function##suffix parameters {                                                 \
    [[maybe_unused]] constexpr auto which = sluice::emulator::DefaultStream::kPerThread; \
    __VA_ARGS__                                                                          \
  }
