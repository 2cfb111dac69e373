#include "node/housekeeping.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <set>

#include "process/log_folder.h"
#include "wire/http/await.h"

namespace sluice::node {
namespace {

using wire::kAwait;

constexpr Nanos kChargeEvery = Millis(250);  // more often than GPUs' accounts change
constexpr Nanos kPollEvery = Millis(500);    // each poll scans /proc for each program on a CPU
constexpr Nanos kTidyEvery = Seconds(60);

// Calls `act` every `period`; the first time after one.
template <class Act>
asio::awaitable<void> repeat(asio::io_context& io, Nanos period, Act act) {
  for (asio::steady_timer timer(io);;) {
    timer.expires_after(period);
    co_await timer.async_wait(kAwait);
    act();
  }
}

void tidy(const Records& records, const std::string& logs) {
  std::set<std::string> living;
  for (const InstanceRecord& r : records.state().instances)
    if (alive(r)) living.insert(r.instance.id);
  tidy_logs(logs, living, FileTime::clock::now());
}

}  // namespace

void start_housekeeping(asio::io_context& io, Enforcer& enforcer, const Records& records,
                        Changes& changes, const std::string& logs) {
  const auto is_gpu = [](const LocalDevice& d) { return d.device.kind == DeviceKind::kCuda; };
  if (std::ranges::any_of(records.state().devices, is_gpu))
    asio::co_spawn(io, repeat(io, kChargeEvery, [&enforcer] { enforcer.watch_ungated(); }),
                   asio::detached);
  const auto poll = [&enforcer, &changes] {
    enforcer.poll_quotas();
    if (enforcer.poll_strays()) changes.notify();
  };
  asio::co_spawn(io, repeat(io, kPollEvery, poll), asio::detached);
  tidy(records, logs);
  asio::co_spawn(io, repeat(io, kTidyEvery, [&records, logs] { tidy(records, logs); }),
                 asio::detached);
}

}  // namespace sluice::node
