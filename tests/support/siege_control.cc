#include "tests/support/siege.h"

namespace sluice::bench {

Result<ControlAttacked> attack_control(const PlatformSettings& settings, int connections,
                                       int rounds, Nanos at_most) {
  constexpr uint64_t kBody = 4 << 20;
  PlatformBed bed(settings);
  SLUICE_TRY(bed.ready());
  const pid_t control = bed.pid_of("control");
  ControlAttacked a{.rss_before_mib = peak_rss_mib(control)};
  {
    const Habit habit{.connections = connections,
                      .opening =
                          "POST /v1/functions HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n"
                          "Content-Type: application/yaml\r\nContent-Length: " +
                          std::to_string(kBody) + "\r\n\r\n",
                      .again = std::string(1024, ' '),
                      .most = kBody};
    const Crowd crowd(bed.api_port(), habit);
    const CrowdState& s = crowd.state();
    const SteadyClock clock;
    const auto wanted = static_cast<uint64_t>(connections) * static_cast<uint64_t>(rounds);
    for (const Time end = clock.now() + at_most; clock.now() < end && s.closed < wanted;)
      ::usleep(20'000);
    a.opened = s.opened;
    a.sent_bytes = s.sent;
  }
  a.rss_mib = peak_rss_mib(control);
  a.alive = bed.pid_of("control") == control && bed.get("/v1/functions").ok();
  return a;
}

}  // namespace sluice::bench
