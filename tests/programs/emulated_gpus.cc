// emulated_gpus MACHINE use SECONDS: how much of each emulated GPU each process used, by the
// device's own log, from now on for so long: a line "DEVICE PID PERCENT" each.
// emulated_gpus MACHINE fail DEVICE [XID]: the device fails, as a real one reports it (79: it fell
// off the bus).
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "base/clock.h"
#include "tests/emulator/health.h"
#include "tests/emulator/machine.h"

using namespace sluice::emulator;

namespace {

int fail(const char* why) {
  std::fprintf(stderr, "emulated_gpus: %s\n", why);
  return 2;
}

struct Use {
  Ns busy = 0, until = 0;
};

int print_use(Machine& machine, double seconds) {
  const auto devices = machine.spec().devices;
  std::vector<std::map<std::uint32_t, Use>> uses(devices);
  std::vector<std::uint64_t> read(devices);
  const sluice::SteadyClock clock;  // the log's
  const auto now = [&] { return clock.now().time_since_epoch().count(); };
  const Ns begin = now();
  {
    Machine::Lock lock(machine);
    for (std::uint32_t d = 0; d < devices; ++d) read[d] = lock->devices[d].log_end();
  }
  const Ns end = begin + static_cast<Ns>(seconds * 1e9);
  for (bool last = false; !last;) {  // before the log's oldest are overwritten
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Machine::Lock lock(machine);
    last = now() >= end;
    for (std::uint32_t d = 0; d < devices; ++d)
      for (const DeviceModel& device = lock->devices[d]; read[d] < device.log_end(); ++read[d]) {
        const Stretch& s = device.stretch(read[d]);
        Use& use = uses[d][s.process];  // its kernels may run side by side
        const Ns from = std::max({s.begin_ns, use.until, begin}), to = std::min(s.end_ns, end);
        if (to > from) use.busy += to - from;
        use.until = std::max(use.until, s.end_ns);
      }
  }
  for (std::uint32_t d = 0; d < devices; ++d)
    for (const auto& [process, use] : uses[d])
      std::printf("%u %u %.1f\n", d, process,
                  100 * static_cast<double>(use.busy) / static_cast<double>(end - begin));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 4) return fail("MACHINE use SECONDS, or MACHINE fail DEVICE [XID]");
  if (access(arguments[1], R_OK | W_OK) != 0) return fail("there is no such machine");
  const auto machine = Machine::open(arguments[1], {});
  if (machine == nullptr) return fail("there is no such machine");
  if (std::strcmp(arguments[2], "use") == 0) return print_use(*machine, std::atof(arguments[3]));
  if (std::strcmp(arguments[2], "fail") != 0) return fail("use or fail is wanted");
  const auto number = static_cast<std::uint32_t>(std::atoi(arguments[3]));
  if (number >= machine->spec().devices) return fail("it has no such device");
  const Machine::Lock lock(*machine);
  raise_xid(*lock, number, count > 4 ? static_cast<unsigned>(std::atoi(arguments[4])) : 79);
  return 0;
}
