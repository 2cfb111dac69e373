#include "routing/admission.h"

#include <algorithm>
#include <cmath>

namespace sluice::policy {
namespace {

constexpr int kWaitForFirst = 8;

}  // namespace

void ServiceTime::add(Nanos sample) {
  sample = std::max(sample, Nanos(1));
  if (!known()) {
    mean_ = sample;
    deviation_ = sample / 2;
    return;
  }
  sample = std::min(sample, 4 * mean_);
  const Nanos error = sample - mean_;
  deviation_ += ((error < Nanos(0) ? -error : error) - deviation_) / 4;
  mean_ += error / 8;
}

Time expected_start(std::span<const ServerView> servers, int ahead, Time now) {
  int free = 0, batch = 1;
  double per_ns = 0;
  Time first = Time::max();
  for (const ServerView& s : servers) {
    free += s.free;
    batch = batch == 1 ? s.batch : std::min(batch, s.batch);
    if (s.service <= Nanos(0)) return now;
    per_ns += s.slots / static_cast<double>(s.service.count());
    first = std::min(first, s.free_at);
  }
  if (servers.empty() || ahead < free) return now;
  const int behind = (ahead - free) / batch * batch;
  return std::max(first, now) + Nanos(static_cast<int64_t>(behind / per_ns));
}

Admission admit(const Arrival& arrival, std::span<const ServerView> servers,
                const ServiceTime& service, Nanos objective) {
  int slots = 0;
  for (const ServerView& s : servers) slots += s.slots;
  if (!service.known() && !servers.empty() && objective > Nanos(0))
    return {.admitted = arrival.ahead < kWaitForFirst * slots, .retry_after = Seconds(1)};
  const Time start = expected_start(servers, arrival.ahead, arrival.now);
  if (start == arrival.now) return {};
  const double in_turn = static_cast<double>(arrival.ahead) / std::max(slots, 1);
  const Nanos deviation = std::max(service.deviation(), service.mean() / 10);
  const Nanos idle = service.mean() + objective / 20 + deviation;  // needed where none is ahead
  Nanos needed = idle + from_seconds(seconds(deviation) * 3 * std::sqrt(in_turn));
  if (objective > Nanos(0) && idle >= objective) needed = Nanos(0);
  const Nanos late = start + needed - arrival.deadline;
  return {.admitted = late <= Nanos(0), .retry_after = std::max(late, Nanos(0))};
}

}  // namespace sluice::policy
