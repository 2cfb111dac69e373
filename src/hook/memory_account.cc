#include "hook/memory_account.h"

#include "hook/lock.h"
#include "hook/readable.h"
#include "wire/permit_attach.h"

namespace sluice::hook {
namespace {

constexpr uint64_t kAnswerNs = 1000 * SLUICE_MS_NS;  // the daemon's time to answer
constexpr uint64_t kRetryNs = 100 * SLUICE_MS_NS;    // between attempts to reach it
constexpr uint64_t kMost = uint64_t{1} << 48;        // more than any device has

int64_t cut(uint64_t bytes) {
  return static_cast<int64_t>(bytes < kMost ? bytes : kMost);
}

sluice_message head_of(uint32_t type) {
  return {SLUICE_HELLO_MAGIC, SLUICE_WIRE_VERSION, type};
}

// The kernel's number of a socket, never given again; 0: it is none.
uint64_t cookie_of(int socket) {
  uint64_t cookie = 0;
  socklen_t size = sizeof cookie;
  return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

bool MemoryAccount::take(uint64_t bytes) {
  const int64_t wanted = cut(bytes);
  if (__builtin_expect(take_from_headroom(wanted), 1)) return true;
  const Lock lock(lock_);
  join_when_due();
  if (over_limit()) shed(0);
  __atomic_sub_fetch(&headroom_, wanted, __ATOMIC_RELAXED);
  if (cover()) return true;
  __atomic_add_fetch(&headroom_, wanted, __ATOMIC_RELAXED);
  return false;
}

void MemoryAccount::add(uint64_t bytes) {
  const int64_t there = cut(bytes);
  if (take_from_headroom(there)) return;
  const Lock lock(lock_);
  __atomic_sub_fetch(&headroom_, there, __ATOMIC_RELAXED);
  cover();
}

void MemoryAccount::give_back(uint64_t bytes) {
  const int64_t left = __atomic_add_fetch(&headroom_, cut(bytes), __ATOMIC_RELAXED);
  if (__atomic_load_n(&page_, __ATOMIC_ACQUIRE) == nullptr) return;
  const int64_t kept = over_limit() ? 0 : keep();
  if (left <= 2 * kept) return;
  const Lock lock(lock_);
  shed(kept);
}

bool MemoryAccount::look(uint64_t& limit, uint64_t& available) {
  if (__atomic_load_n(&page_, __ATOMIC_ACQUIRE) == nullptr) {
    const Lock lock(lock_);
    join_when_due();
  }
  const sluice_memory_page* page = __atomic_load_n(&page_, __ATOMIC_ACQUIRE);
  if (page == nullptr) return false;
  limit = __atomic_load_n(&page->limit, __ATOMIC_RELAXED);
  const auto held = static_cast<int64_t>(__atomic_load_n(&page->held, __ATOMIC_RELAXED));
  const int64_t left =
      static_cast<int64_t>(limit) - held + __atomic_load_n(&headroom_, __ATOMIC_RELAXED);
  available = left > 0 ? static_cast<uint64_t>(left) : 0;
  return true;
}

bool MemoryAccount::take_from_headroom(int64_t bytes) {
  if (__atomic_load_n(&page_, __ATOMIC_ACQUIRE) == nullptr || over_limit()) return false;
  int64_t left = __atomic_load_n(&headroom_, __ATOMIC_RELAXED);
  while (left >= bytes)
    if (__atomic_compare_exchange_n(&headroom_, &left, left - bytes, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED))
      return true;
  return false;
}

bool MemoryAccount::over_limit() const {
  const sluice_memory_page* page = __atomic_load_n(&page_, __ATOMIC_ACQUIRE);
  return page != nullptr && __atomic_load_n(&page->held, __ATOMIC_RELAXED) >
                                __atomic_load_n(&page->limit, __ATOMIC_RELAXED);
}

// The headroom that is worth keeping. Another thread may just have been told that nobody counts.
int64_t MemoryAccount::keep() const {
  const sluice_memory_page* page = __atomic_load_n(&page_, __ATOMIC_ACQUIRE);
  if (page == nullptr) return 0;
  const uint64_t holders = __atomic_load_n(&page->holders, __ATOMIC_RELAXED);
  const uint64_t part = __atomic_load_n(&page->limit, __ATOMIC_RELAXED) / SLUICE_HEADROOM_SHARE /
                        (holders != 0 ? holders : 1);
  return static_cast<int64_t>(part < SLUICE_HEADROOM_BYTES ? part : SLUICE_HEADROOM_BYTES);
}

void MemoryAccount::set_held(int64_t held) {
  __atomic_add_fetch(&headroom_, held - held_, __ATOMIC_RELAXED);
  held_ = held;
}

// Whether all that is used is held, or need not be.
bool MemoryAccount::cover() {
  if (page_ == nullptr) return !refused_;
  const int64_t needed = used();
  if (needed <= held_) return true;
  if (connected_ && hold(needed, needed + keep())) return held_ >= needed;
  if (needed > alone_most_) return false;
  set_held(needed);
  return true;
}

// Gives back what headroom there is beyond `keep`. It is taken out of the threads' hands first.
void MemoryAccount::shed(int64_t keep) {
  if (!connected_) return;
  int64_t left = __atomic_load_n(&headroom_, __ATOMIC_RELAXED);
  do {
    if (left <= keep) return;
  } while (!__atomic_compare_exchange_n(&headroom_, &left, keep, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  held_ -= left - keep;
  SLUICE_STEP("shed: taken out");
  hold(0, held_);
}

// ---- the conversation ---------------------------------------------------------------------------

// A program may have closed all descriptors, and the number be another's by now.
bool MemoryAccount::is_ours(int socket) const {
  return cookie_of(socket) == socket_cookie_;
}

// The daemon says nothing unasked: what can be read then is its end. One that has been started
// again hears of us before we take anything alone.
void MemoryAccount::join_when_due() {
  if (connected_ && (!is_ours(socket_) || readable(socket_, 0))) go_alone();
  const uint64_t now = sluice_clock(CLOCK_MONOTONIC);
  if (connected_ || now < next_ns_) return;
  next_ns_ = now + kRetryNs;
  sluice_memory_hello hello{};
  hello.head = head_of(SLUICE_MEMORY_HELLO);
  hello.device = __atomic_load_n(&device_, __ATOMIC_RELAXED);
  hello.used = static_cast<uint64_t>(used());
  socket_ =
      sluice_call_daemon(__atomic_load_n(&socket_path_, __ATOMIC_RELAXED), &hello, sizeof hello);
  if (socket_ < 0) return;
  SLUICE_STEP("join: asked");
  socket_cookie_ = cookie_of(socket_);
  union {
    sluice_memory_welcome welcome;
    sluice_refused refused;
  } answer{};
  int fds[3] = {-1, -1, -1};
  const long size =
      readable(socket_, kAnswerNs) ? sluice_receive(socket_, &answer, sizeof answer, fds) : -1;
  hear_welcome(size, answer.welcome, fds[0]);
  for (const int fd : fds)
    if (fd >= 0) close(fd);
  if (connected_) return shed(keep());  // what was written down for us and is not used any more
  close(socket_);
  if (size != sizeof answer.refused || answer.refused.head.type != SLUICE_REFUSED) return;
  // Nobody counts here: not this daemon, or not this process.
  __atomic_store_n(&page_, nullptr, __ATOMIC_RELEASE);
  refused_ = answer.refused.reason == SLUICE_REFUSED_BUSY;
  next_ns_ = now + kRetryNs + answer.refused.retry_ms * SLUICE_MS_NS;
}

void MemoryAccount::hear_welcome(long size, const sluice_memory_welcome& welcome, int page) {
  if (size != sizeof welcome || welcome.head.type != SLUICE_MEMORY_WELCOME || page < 0) return;
  auto* mapped =
      static_cast<const sluice_memory_page*>(sluice_map(page, PROT_READ, SLUICE_MEMORY_MAGIC));
  if (mapped == nullptr) return;
  set_held(cut(welcome.held));
  SLUICE_STEP("join: welcomed");
  connected_ = true;
  refused_ = false;
  __atomic_store_n(&page_, mapped, __ATOMIC_RELEASE);  // the one before stays: somebody may look
}

// What the daemon then has written down is what is held. False: there is no daemon any more.
bool MemoryAccount::hold(int64_t least, int64_t most) {
  sluice_hold ask{};
  ask.head = head_of(SLUICE_HOLD);
  ask.request = ++request_;
  ask.least = static_cast<uint64_t>(least);
  ask.most = static_cast<uint64_t>(most);
  sluice_held answer{};
  if (exchange(ask, answer)) {
    SLUICE_STEP("hold: answered");
    set_held(cut(answer.held));
    return true;
  }
  go_alone();
  return false;
}

bool MemoryAccount::exchange(const sluice_hold& ask, sluice_held& answer) {
  if (!is_ours(socket_)) return false;
  if (syscall(SYS_sendto, socket_, &ask, sizeof ask, MSG_DONTWAIT | MSG_NOSIGNAL, nullptr, 0) !=
      static_cast<long>(sizeof ask))
    return false;
  SLUICE_STEP("hold: asked");
  const uint64_t until = sluice_clock(CLOCK_MONOTONIC) + kAnswerNs;
  for (uint64_t now = until - kAnswerNs; now < until; now = sluice_clock(CLOCK_MONOTONIC)) {
    if (!readable(socket_, until - now)) continue;
    const long size =
        syscall(SYS_recvfrom, socket_, &answer, sizeof answer, MSG_DONTWAIT, nullptr, nullptr);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (size != static_cast<long>(sizeof answer) || answer.head.type != SLUICE_HELD) return false;
    if (answer.request == ask.request) return true;
  }
  return false;
}

// All processes of the slice may share what was left when the daemon was last heard of.
void MemoryAccount::go_alone() {
  if (is_ours(socket_)) close(socket_);
  connected_ = false;
  next_ns_ = 0;
  const auto limit = static_cast<int64_t>(__atomic_load_n(&page_->limit, __ATOMIC_RELAXED));
  const auto held = static_cast<int64_t>(__atomic_load_n(&page_->held, __ATOMIC_RELAXED));
  const int64_t holders = __atomic_load_n(&page_->holders, __ATOMIC_RELAXED);
  const int64_t left = limit > held ? limit - held : 0;
  alone_most_ = held_ + left / (holders > 0 ? holders : 1);
}

}  // namespace sluice::hook
