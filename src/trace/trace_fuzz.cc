// Any bytes are either a trace within its bounds or an error with a message, for every reader.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "trace/arrivals.h"
#include "trace/clusters.h"
#include "trace/job_list.h"
#include "trace/rates.h"

namespace {

using namespace sluice;

template <class T>
void has_message(const Result<T>& result) {
  if (!result.ok() && result.error().message.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int memory = memfd_create("trace", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(memory);
  if (ftruncate(memory, 0) != 0 || pwrite(memory, data, size, 0) != static_cast<ssize_t>(size))
    return 0;
  for (const trace::RateFormat& format : trace::rate_formats()) {
    const auto rates = trace::read_rates(format.name, path, {});
    has_message(rates);
    if (!rates.ok()) continue;
    for (const trace::RateStep& step : *rates)
      if (!(step.from >= 0 && step.to >= 0 && step.from <= 1e6 && step.to <= 1e6)) std::abort();
  }
  has_message(trace::read_openb_nodes(path));
  has_message(trace::read_openb_pods(path));
  has_message(trace::read_dilu_instances(path));
  const auto jobs = trace::read_job_list(path, {});
  has_message(jobs);
  if (jobs.ok())
    for (const trace::ListedJob& job : *jobs)
      if (job.submitted < Nanos(0) || job.devices < 0 || job.duration < Nanos(0)) std::abort();
  auto arrivals = trace::ArrivalFile::open(path);
  has_message(arrivals);
  Nanos last{};
  while (arrivals.ok()) {
    const auto next = arrivals->next();
    has_message(next);
    if (!next.ok() || !*next) break;
    if ((*next)->at < last) std::abort();
    last = (*next)->at;
  }
  return 0;
}
