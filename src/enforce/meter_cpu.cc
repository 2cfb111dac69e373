#include "enforce/meter_cpu.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>
#include <utility>

namespace sluice::node {
namespace {

Nanos read_clock(clockid_t id, Nanos otherwise) {
  timespec t{};
  if (clock_gettime(id, &t) != 0) return otherwise;
  return Seconds(t.tv_sec) + Nanos(t.tv_nsec);
}

}  // namespace

int pace_on(int millicores) {
  const int cores = (millicores + 999) / 1000;
  return cores * 1'000'000 / millicores;
}

Result<std::unique_ptr<CpuCounter>> CgroupCounter::open(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid())
    return Error{ErrorKind::kUnavailable, path + ": " + std::system_category().message(errno)};
  return std::unique_ptr<CpuCounter>(new CgroupCounter(std::move(file)));
}

Nanos CgroupCounter::read() {
  char text[64];
  const ssize_t n = pread(file_.get(), text, sizeof text - 1, 0);
  if (n <= 0) return last_;
  text[n] = 0;
  constexpr const char kV2[] = "usage_usec ";
  const bool v2 = std::strncmp(text, kV2, sizeof kV2 - 1) == 0;
  const int64_t value = std::strtoll(v2 ? text + sizeof kV2 - 1 : text, nullptr, 10);
  return last_ = std::max(last_, v2 ? Nanos(Micros(value)) : Nanos(value));
}

void LaterCounter::begin(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (counter_ != nullptr || path.empty()) return;
  Result<std::unique_ptr<CpuCounter>> counter = CgroupCounter::open(path);
  if (!counter.ok()) return;
  counter_ = std::move(*counter);
  before_ = counter_->read();
}

Nanos LaterCounter::read() {
  const std::lock_guard lock(mutex_);
  return counter_ == nullptr ? Nanos(0) : counter_->read() - before_;
}

Nanos cpu_time_of(const std::vector<pid_t>& processes) {
  Nanos sum{0};
  clockid_t id;
  for (const pid_t pid : processes)
    if (clock_getcpuclockid(pid, &id) == 0) sum += read_clock(id, Nanos(0));
  return sum;
}

Nanos ProcessCounter::read() {
  for (Clock& clock : clocks_) {
    const Nanos now = std::max(read_clock(clock.id, clock.counted), clock.counted);
    total_ += now - std::exchange(clock.counted, now);
  }
  return total_;
}

void ProcessCounter::add_process(const ProcessIdentity& process) {
  clockid_t id;
  if (clock_getcpuclockid(process.pid, &id) != 0) return;
  clocks_.push_back({process, id, read_clock(id, Nanos(0))});
}

void ProcessCounter::remove_process(const ProcessIdentity& process) {
  read();
  std::erase_if(clocks_, [&](const Clock& c) { return c.process == process; });
}

CpuMeter::CpuMeter(std::unique_ptr<CpuCounter> counter, int millicores, Time now)
    : counter_(std::move(counter)),
      millicores_(millicores),
      counted_(counter_->read()),
      last_(counted_),
      last_active_(now) {}

std::optional<Reading> CpuMeter::poll(Time now, bool resting) {
  if (now == last_poll_) return std::nullopt;
  const Nanos cpu = counted_ - std::exchange(last_, counted_);
  if (cpu > Nanos(0)) last_active_ = now;
  if (cpu == Nanos(0) && !resting && now - last_active_ < kLag) return std::nullopt;
  last_poll_ = now;
  return Reading{cpu * 1000 / millicores_, now};
}

}  // namespace sluice::node
