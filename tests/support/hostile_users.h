// Two programs that attack a platform from inside its machine: one of a local user, and a training
// job's script (tests/programs/hostile_user.py). They are told every path that the platform has.
// Needs root. One thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "tests/support/platform_bed.h"

namespace sluice::bench {

struct Hostilities {
  // Each as "USER: PATH" or "USER: PID": what was another's, and was read, written to, made in its
  // place, or signalled.
  std::vector<std::string> taken;
  int64_t tried = 0, connections = 0, sent_bytes = 0;
};

class HostileUsers {
 public:
  // Starts both. `busy`: they only use the processor, as a reference. `program`: hostile_user.py.
  static Result<HostileUsers> start(PlatformBed& bed, const std::string& program, bool busy,
                                    Nanos lasts, uint64_t seed);
  HostileUsers(HostileUsers&& other) noexcept
      : bed_(other.bed_), folder_(std::exchange(other.folder_, "")) {}
  ~HostileUsers();

  // Tells them of what the platform has made since. To be called about once a second.
  Result<void> tell_paths() const;
  bool ended() const;  // both have told what they did
  Result<Hostilities> told();

 private:
  HostileUsers(PlatformBed& bed, std::string folder) : bed_(&bed), folder_(std::move(folder)) {}
  std::string report_of(const std::string& user) const { return folder_ + "/" + user + ".json"; }

  PlatformBed* bed_;
  std::string folder_;
};

}  // namespace sluice::bench
