// Litmus test of the wake-up between two processes and two pages: the client publishes `waiting`
// and then looks at `seq`, the daemon publishes `seq` and then looks at `waiting`. A wake-up is
// lost when a client sleeps to its time-out although the daemon had long finished granting and
// waking; noise cannot look like that.
//
//   permit_litmus [SECONDS]
//
// permit_litmus_weak is the same with release and acquire in place of sequential consistency. It
// loses wake-ups, which shows that this test can fail; it is no part of ctest.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/random.h"
#include "wire/permit.h"

namespace {

constexpr uint64_t kTimeout = 20 * SLUICE_MS_NS;  // of one sleep
constexpr uint64_t kLong = 5 * SLUICE_MS_NS;      // the daemon had finished this long before

struct alignas(64) Round {
  std::atomic<uint64_t> number{0};
};

struct Shared {
  sluice_permit_page permit;
  sluice_usage_page usage;
  Round asked, blocked, granted;     // by the daemon, by the client, by the daemon
  std::atomic<uint64_t> granted_at;  // when store and wake of the last grant were over
  std::atomic<uint64_t> sleeps, lost;
  std::atomic<bool> stop;
};

void spin_until(const Shared& s, const Round& round, uint64_t number) {
  while (round.number.load(std::memory_order_acquire) < number && !s.stop) {
  }
}

// Lets the two sides meet at every distance.
void spin(uint64_t times) {
  for (; times > 0; --times) __asm__ volatile("");
}

// The n-th of the cores that we may use: two processes on one core never meet.
void move_to_core(int n) {
  cpu_set_t allowed, one;
  CPU_ZERO(&one);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed) && n-- == 0) CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

uint64_t clock_ns() {
  return sluice_clock(CLOCK_MONOTONIC);
}

// Blocks as the gate does: counts itself, looks again, sleeps.
void client(Shared& s) {
  sluice::Random random(2);
  for (uint64_t i = 1; !s.stop; ++i) {
    spin_until(s, s.asked, i);
    const uint32_t seen = sluice_seq(&s.permit);
    s.blocked.number.store(i, std::memory_order_release);
    spin(random.below(6000));
    while (sluice_seq(&s.permit) == seen && !s.stop) {
      __atomic_add_fetch(&s.usage.waiting, 1u, SLUICE_WAKE_STORE);
      const uint64_t start = clock_ns();
      const int woken = sluice_permit_wait(&s.permit, seen, kTimeout);
      s.sleeps += clock_ns() - start > 2000;
      if (!woken && s.granted.number == i && clock_ns() - s.granted_at > kLong) ++s.lost;
      __atomic_sub_fetch(&s.usage.waiting, 1u, __ATOMIC_SEQ_CST);
    }
  }
}

// Stores to cold lines: the processor keeps them, and the grant behind them, back for a while,
// during which loads overtake. What an unlucky daemon does anyway, every time.
class ColdStores {
 public:
  void fill(sluice::Random& random) {
    for (int i = 0; i < 40; ++i) words_[random.below(words_.size())] = i;
  }

 private:
  std::vector<int> words_ = std::vector<int>(16 << 20);
};

uint64_t daemon(Shared& s, uint64_t seconds) {
  sluice::Random random(1);
  ColdStores cold;
  const uint64_t end = clock_ns() + seconds * 1'000'000'000;
  uint64_t i = 0;
  while (clock_ns() < end) {
    ++i;
    sluice_permit_revoke(&s.permit);
    s.asked.number.store(i, std::memory_order_release);
    spin_until(s, s.blocked, i);
    spin(random.below(300));
    cold.fill(random);
    sluice_permit_grant(&s.permit, i, i, i);
    sluice_permit_wake(&s.permit, &s.usage);
    s.granted_at = clock_ns();
    s.granted.number.store(i, std::memory_order_release);
  }
  return i;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seconds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 3;
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Shared& s = *new (memory) Shared{};
  const pid_t child = fork();
  if (child == 0) {
    move_to_core(1);
    client(s);
    _exit(0);
  }
  move_to_core(0);
  const uint64_t iterations = daemon(s, seconds);
  s.stop = true;
  sluice_permit_revoke(&s.permit);
  sluice_futex(&s.permit.seq, FUTEX_WAKE, INT_MAX, nullptr);
  waitpid(child, nullptr, 0);
  std::printf("%llu grants, %llu sleeps, %llu wake-ups lost\n",
              static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(s.sleeps.load()),
              static_cast<unsigned long long>(s.lost.load()));
  return s.lost == 0 && s.sleeps > 0 ? 0 : 1;
}
