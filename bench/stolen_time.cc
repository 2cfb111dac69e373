#include "bench/stolen_time.h"

#include <fstream>
#include <string>

namespace sluice::bench {
namespace {

ProcessorTime now() {
  std::ifstream stat("/proc/stat");
  return read_processor_time(stat);
}

}  // namespace

// "cpu  user nice system idle iowait irq softirq steal guest guest_nice"; guests' time is part of
// user and nice.
ProcessorTime read_processor_time(std::istream& stat) {
  constexpr int kFields = 8;
  std::string name;
  ProcessorTime time;
  if (!(stat >> name) || name != "cpu") return {};
  for (int field = 0; field < kFields; ++field) {
    if (!(stat >> time.stolen)) return {};
    time.all += time.stolen;
  }
  return time;
}

StolenTime::StolenTime() : begin_(now()) {}

double StolenTime::percent() const {
  const ProcessorTime end = now();
  if (end.all <= begin_.all || end.stolen < begin_.stolen) return 0;
  return 100 * static_cast<double>(end.stolen - begin_.stolen) /
         static_cast<double>(end.all - begin_.all);
}

}  // namespace sluice::bench
