// What kernels on a real GPU write down themselves: when each began (its first block) and ended
// (its last one), by the device's own clock, in memory that the host sees at once. The outside
// judge of quotas where there is no emulator's log: no meter of Sluice's has a part in it.
//
// A KernelStamps reads one program's stamps, of which there is one writer, its kernels. It maps the
// device's clock to ours by the least delay with which a stamp was ever seen, so it wants to be
// asked to look() many thousand times a second. Not thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "base/clock.h"

namespace sluice::bench {

struct KernelStamp {
  uint64_t begin_ns, end_ns;  // end 0: it runs
  uint64_t away_ns;           // in between, the device worked for others
  uint64_t unused;
};
inline constexpr uint64_t kStamps = 1
                                    << 18;  // a ring; more than kernels of 10 us begin in a second

// PTX, and in a comment the same for the emulated driver, which stamps nothing: kernel `work`, with
// the parameters (stamps, kStamps - 1, ns). It runs for `ns`, not counting what others have the
// device for meanwhile.
std::string stamped_kernel(int64_t ns);

class KernelStamps {
 public:
  // From the end of a kernel to the beginning of the program's next, if no more: the device was not
  // free meanwhile.
  static constexpr Nanos kBetweenKernels = Micros(3);

  explicit KernelStamps(const std::string& path);  // a file that is made anew
  ~KernelStamps();
  KernelStamps(const KernelStamps&) = delete;

  void look(Time now);
  KernelStamp* stamps() const { return ring_; }

  // As of the last look: the device worked for the program, in all.
  Nanos busy() const;
  // The first of its kernels (of the last 65,536) that began after a moment; the end of the last.
  std::optional<Time> began_after(Time moment) const;
  std::optional<Time> last_end() const;

 private:
  void heard(uint64_t stamp_ns);
  void count(const KernelStamp& stamp);
  Time ours(uint64_t stamp_ns) const { return Time(Nanos(stamp_ns) + apart_); }

  KernelStamp* ring_;
  uint64_t next_ = 0;   // to be read
  bool began_ = false;  // that one has
  Time now_{};
  Nanos apart_ = Nanos::max() / 2;  // our clock, less the device's
  uint64_t until_ns_ = 0;           // counted as far as there
  Nanos busy_{0};
  std::deque<uint64_t> begins_;
};

}  // namespace sluice::bench
