// Records written by kernels on a real GPU: when each began (its first block) and ended (its last
// one), by the device's own clock, in memory that the host sees at once. They measure quotas from
// outside where there is no emulator's log: no meter of Sluice's has a part in them.
//
// A KernelStamps reads one program's stamps, which only its kernels write. It maps the device's
// clock to ours by the least delay with which a stamp was ever seen. So look() should be called
// many thousand times a second. Not thread-safe.
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

// Returns PTX, and in a comment the same for the emulated driver, which stamps nothing: kernel
// `work`, with the parameters (stamps, kStamps - 1, ns). It runs for `ns`, not counting the time in
// which others have the device.
std::string stamped_kernel(int64_t ns);

class KernelStamps {
 public:
  // The longest gap between a kernel's end and the beginning of the program's next in which the
  // device was not free.
  static constexpr Nanos kBetweenKernels = Micros(3);

  explicit KernelStamps(const std::string& path);  // made anew
  ~KernelStamps();
  KernelStamps(const KernelStamps&) = delete;

  void look(Time now);
  KernelStamp* stamps() const { return ring_; }

  // Returns how long the device worked for the program, in all, as of the last look().
  Nanos busy() const;
  // Returns the first of its kernels (of the last 65,536) that began after a moment; the end of the
  // last.
  std::optional<Time> began_after(Time moment) const;
  std::optional<Time> last_end() const;

 private:
  void heard(uint64_t stamp_ns);
  void count(const KernelStamp& stamp);
  Time ours(uint64_t stamp_ns) const { return Time(Nanos(stamp_ns) + apart_); }

  KernelStamp* ring_;
  uint64_t next_ = 0;   // the next to read
  bool began_ = false;  // the next one has begun
  Time now_{};
  Nanos apart_ = Nanos::max() / 2;  // our clock, less the device's
  uint64_t until_ns_ = 0;           // counted up to there
  Nanos busy_{0};
  std::deque<uint64_t> begins_;
};

}  // namespace sluice::bench
