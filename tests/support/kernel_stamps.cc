#include "tests/support/kernel_stamps.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/check.h"
#include "base/fd.h"

namespace sluice::bench {
namespace {

constexpr size_t kBytes = kStamps * sizeof(KernelStamp);
constexpr size_t kBegins = 1 << 16;
constexpr int64_t kDrift = 5000;  // two clocks diverge by at most a second in so many

uint64_t read(const uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace

// One thread of each block runs, the others wait for it, so a block of 1024 threads keeps its place
// on the SM as long. While the device is given to others, its clock jumps. The first block stamps
// the beginning and the last one to end stamps the end, as blocks may have to wait for space.
// Blocks of one launch recognise each other at the stamp by %gridid, in tables that each leaves as
// it found them.
std::string stamped_kernel(int64_t ns) {
  return "//@ kernel work ns=" + std::to_string(ns) + R"(
.version 6.3
.target sm_75
.address_size 64
.global .align 8 .u64 launched;
.global .align 8 .u64 stamp_of[1024];
.global .align 8 .u64 away_of[1024];
.global .align 4 .u32 ended_of[1024];
.visible .entry work(.param .u64 stamps, .param .u64 mask, .param .u64 length)
{
  .reg .pred %others, %jumped, %more;
  .reg .b32 %thread, %block, %blocks, %ended;
  .reg .b64 %at, %slot, %mask, %now, %last, %step, %ran, %away, %length;
  .reg .b64 %launch, %row, %table;
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %others, %thread, 0;
  @%others bra wait;
  mov.u64 %last, %globaltimer;
  mov.u64 %ran, 0;
  mov.u64 %away, 0;
  ld.param.u64 %length, [length];
  mov.u64 %launch, %gridid;
  and.b64 %launch, %launch, 1023;
  mov.u32 %block, %ctaid.x;
  setp.ne.u32 %others, %block, 0;
  @%others bra again;
  ld.param.u64 %at, [stamps];
  ld.param.u64 %mask, [mask];
  atom.global.add.u64 %slot, [launched], 1;
  and.b64 %slot, %slot, %mask;
  mad.lo.u64 %at, %slot, 32, %at;
  st.volatile.global.u64 [%at], %last;
  mov.u64 %table, stamp_of;
  mad.lo.u64 %row, %launch, 8, %table;
  st.volatile.global.u64 [%row], %at;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %step, %now, %last;
  mov.u64 %last, %now;
  setp.gt.u64 %jumped, %step, 50000;
  @%jumped add.u64 %away, %away, %step;
  @!%jumped add.u64 %ran, %ran, %step;
  setp.lt.u64 %more, %ran, %length;
  @%more bra again;
  mov.u64 %table, away_of;
  mad.lo.u64 %row, %launch, 8, %table;
  red.global.max.u64 [%row], %away;
  membar.gl;
  mov.u32 %blocks, %nctaid.x;
  sub.u32 %blocks, %blocks, 1;
  mov.u64 %table, ended_of;
  mad.lo.u64 %table, %launch, 4, %table;
  atom.global.inc.u32 %ended, [%table], %blocks;
  setp.ne.u32 %others, %ended, %blocks;
  @%others bra wait;
  membar.gl;
  atom.global.exch.b64 %away, [%row], 0;
  mov.u64 %table, stamp_of;
  mad.lo.u64 %row, %launch, 8, %table;
  ld.volatile.global.u64 %at, [%row];
  mov.u64 %now, %globaltimer;
  st.volatile.global.u64 [%at+16], %away;
  membar.sys;
  st.volatile.global.u64 [%at+8], %now;
wait:
  bar.sync 0;
  ret;
}
)";
}

KernelStamps::KernelStamps(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  SLUICE_CHECK(file.valid() && ftruncate(file.get(), kBytes) == 0, path);
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  SLUICE_CHECK(map != MAP_FAILED, path);
  ring_ = static_cast<KernelStamp*>(map);
}

KernelStamps::~KernelStamps() {
  munmap(ring_, kBytes);
}

void KernelStamps::look(Time now) {
  apart_ += (now - now_) / kDrift;
  now_ = now;
  for (;;) {
    KernelStamp& stamp = ring_[next_ % kStamps];
    const uint64_t begin = read(stamp.begin_ns);
    if (begin == 0) return;
    if (!began_) {
      heard(begin);
      begins_.push_back(begin);
      if (begins_.size() > kBegins) begins_.pop_front();
    }
    began_ = true;
    const uint64_t end = read(stamp.end_ns);
    if (end == 0) return;
    heard(end);
    count({begin, end, stamp.away_ns, 0});
    stamp = {};
    began_ = false;
    ++next_;
  }
}

void KernelStamps::heard(uint64_t stamp_ns) {
  apart_ = std::min(apart_, now_.time_since_epoch() - Nanos(stamp_ns));
}

void KernelStamps::count(const KernelStamp& stamp) {
  const bool follows = stamp.begin_ns <= until_ns_ + static_cast<uint64_t>(kBetweenKernels.count());
  const uint64_t begin = follows ? until_ns_ : stamp.begin_ns;
  if (stamp.end_ns > begin + stamp.away_ns) busy_ += Nanos(stamp.end_ns - begin - stamp.away_ns);
  until_ns_ = std::max(until_ns_, stamp.end_ns);
}

Nanos KernelStamps::busy() const {
  if (!began_) return busy_;
  const Time begin = std::max(ours(begins_.back()), ours(until_ns_));
  return busy_ + std::max(now_ - begin, Nanos(0));
}

std::optional<Time> KernelStamps::began_after(Time moment) const {
  for (const uint64_t begin : begins_)
    if (ours(begin) >= moment) return ours(begin);
  return std::nullopt;
}

std::optional<Time> KernelStamps::last_end() const {
  if (until_ns_ == 0) return std::nullopt;
  return ours(until_ns_);
}

}  // namespace sluice::bench
