// replay_trace FILE [TIMES] [--no-gaps]: plays a recorded launch trace
// (tests/emulator/launch_trace.h) on the emulated GPU. Prints how long the host took for it and how
// long the device was busy, by its own log. A CUDA program like any other: behind the hook it is
// held to its slice.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/clock.h"
#include "tests/emulator/machine.h"
#include "tests/emulator/settings.h"
#include "tests/support/trace_player.h"

using namespace sluice::emulator;

namespace {

int fail(const std::string& why) {
  std::fprintf(stderr, "replay_trace: %s\n", why.c_str());
  return 1;
}

bool read_file(const char* path, LaunchTrace& trace, std::string& why) {
  std::ifstream file(path);
  if (!file) {
    why = std::string(path) + ": cannot be read";
    return false;
  }
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (read_trace(text, trace, why)) return true;
  why = std::string(path) + ": " + why;
  return false;
}

// Returns how long the log's device ran something of this process, on however many SMs.
double busy_ms() {
  const char* path = std::getenv("SLUICE_EMULATED_GPU");
  const auto machine = path != nullptr ? Machine::open(path, {}) : nullptr;
  if (machine == nullptr) return 0;
  Machine::Lock lock(*machine);
  Ns busy = 0, until = 0;
  const DeviceModel& device = lock->devices[0];
  for (std::uint64_t i = 0; i < device.log_end(); ++i) {
    const Stretch& s = device.stretch(i);
    if (s.process != static_cast<unsigned>(getpid()) || s.end_ns <= until) continue;
    busy += s.end_ns - std::max(s.begin_ns, until);
    until = s.end_ns;
  }
  return static_cast<double>(busy) / 1e6;
}

}  // namespace

int main(int count, char** arguments) {
  int times = 1;
  auto gaps = TracePlayer::Gaps::kKept;
  for (int i = 2; i < count; ++i) {
    if (std::strcmp(arguments[i], "--no-gaps") == 0)
      gaps = TracePlayer::Gaps::kNone;
    else if ((times = std::atoi(arguments[i])) < 1)
      return fail(std::string(arguments[i]) + ": has to be a number of times, or --no-gaps");
  }
  LaunchTrace trace;
  std::string why = "FILE is missing: replay_trace FILE [TIMES] [--no-gaps]";
  if (count < 2 || !read_file(arguments[1], trace, why)) return fail(why);
  CUcontext context = nullptr;
  if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS)
    return fail("no emulated GPU: set SLUICE_EMULATED_GPU to a file");
  const sluice::SteadyClock clock;
  TracePlayer player(trace, clock);
  const sluice::Time start = clock.now();
  for (int i = 0; i < times && player.result() == CUDA_SUCCESS; ++i) player.play(gaps);
  cuCtxSynchronize();
  if (player.result() != CUDA_SUCCESS)
    return fail("a call failed: CUresult " + std::to_string(player.result()));
  std::printf("%zu calls, %d times: %.2f ms; the device was busy for %.2f ms\n", trace.steps.size(),
              times, sluice::millis(clock.now() - start), busy_ms());
  return 0;
}
