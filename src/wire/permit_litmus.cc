// Litmus test of the wake-up between two processes over two pages. The client publishes `waiting`
// and then reads `seq`; the daemon publishes `seq` and then reads `waiting`. The pages are two
// memfds, as in production: the permit page is sealed against later writers; the client's map of it
// is read-only, and each side's map lies at an address of its own. A wake-up is lost when a client
// sleeps to its time-out although the daemon had long finished granting and waking. Noise cannot
// look like that.
//
//   permit_litmus [SECONDS]
//
// permit_litmus_weak is the same with release and acquire in place of sequential consistency. It
// loses wake-ups, which shows that this test can fail; it is not part of ctest.
#include <fcntl.h>
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

// How the two keep in step, apart from the tested words.
struct Shared {
  Round asked, blocked, granted;     // by the daemon, by the client, by the daemon
  std::atomic<uint64_t> granted_at;  // when store and wake of the last grant were over
  std::atomic<uint64_t> sleeps, lost;
  std::atomic<bool> sealed, stop;
};

void spin_until(const Shared& s, const Round& round, uint64_t number) {
  while (round.number.load(std::memory_order_acquire) < number && !s.stop) {
  }
}

// Lets the two sides meet at every distance.
void spin(uint64_t times) {
  for (; times > 0; --times) __asm__ volatile("");
}

// Moves to the n-th core that we may use: two processes on one core never meet.
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

// One page; any map made after the seal is read-only.
class Page {
 public:
  Page() : fd_(memfd_create("litmus", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (fd_ < 0 || ftruncate(fd_, SLUICE_PAGE_SIZE) != 0) std::exit(2);
  }
  void* map(int protection) const {
    void* page = mmap(nullptr, SLUICE_PAGE_SIZE, protection, MAP_SHARED, fd_, 0);
    if (page == MAP_FAILED) std::exit(2);
    return page;
  }
  void seal() const {
    if (fcntl(fd_, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
      std::exit(2);
  }

 private:
  const int fd_;
};

// Blocks as the gate does: counts itself, checks again, sleeps.
void client(Shared& s, const sluice_permit_page& permit, sluice_usage_page& usage) {
  sluice::Random random(2);
  for (uint64_t i = 1; !s.stop; ++i) {
    spin_until(s, s.asked, i);
    const uint32_t seen = sluice_seq(&permit);
    s.blocked.number.store(i, std::memory_order_release);
    spin(random.below(6000));
    while (sluice_seq(&permit) == seen && !s.stop) {
      __atomic_add_fetch(&usage.waiting, 1u, SLUICE_WAKE_STORE);
      const uint64_t start = clock_ns();
      const int woken = sluice_permit_wait(&permit, seen, kTimeout);
      s.sleeps += clock_ns() - start > 2000;
      if (!woken && s.granted.number == i && clock_ns() - s.granted_at > kLong) ++s.lost;
      __atomic_sub_fetch(&usage.waiting, 1u, __ATOMIC_SEQ_CST);
    }
  }
}

// Stores to cold lines: the processor keeps them, and the grant behind them, back for a while, and
// loads overtake them. This makes an unlucky daemon's timing the rule.
class ColdStores {
 public:
  void fill(sluice::Random& random) {
    for (int i = 0; i < 40; ++i) words_[random.below(words_.size())] = i;
  }

 private:
  std::vector<int> words_ = std::vector<int>(16 << 20);
};

uint64_t daemon(Shared& s, sluice_permit_page& permit, const sluice_usage_page& usage,
                uint64_t seconds) {
  sluice::Random random(1);
  ColdStores cold;
  const uint64_t end = clock_ns() + seconds * 1'000'000'000;
  uint64_t i = 0;
  while (clock_ns() < end) {
    ++i;
    sluice_permit_revoke(&permit);
    s.asked.number.store(i, std::memory_order_release);
    spin_until(s, s.blocked, i);
    spin(random.below(300));
    cold.fill(random);
    sluice_permit_grant(&permit, i, i, i);
    sluice_permit_wake(&permit, &usage);
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
  const Page permit_page, usage_page;
  const pid_t child = fork();
  if (child < 0) return 2;
  if (child == 0) {
    while (!s.sealed && getppid() != 1) usleep(100);
    move_to_core(1);
    client(s, *static_cast<const sluice_permit_page*>(permit_page.map(PROT_READ)),
           *static_cast<sluice_usage_page*>(usage_page.map(PROT_READ | PROT_WRITE)));
    _exit(0);
  }
  move_to_core(0);
  auto* permit = static_cast<sluice_permit_page*>(permit_page.map(PROT_READ | PROT_WRITE));
  permit_page.seal();
  s.sealed = true;
  const auto* usage = static_cast<const sluice_usage_page*>(usage_page.map(PROT_READ));
  const uint64_t iterations = daemon(s, *permit, *usage, seconds);
  s.stop = true;
  sluice_permit_revoke(permit);
  sluice_futex(&permit->seq, FUTEX_WAKE, INT_MAX, nullptr);
  waitpid(child, nullptr, 0);
  std::printf("%llu grants, %llu sleeps, %llu wake-ups lost\n",
              static_cast<unsigned long long>(iterations),
              static_cast<unsigned long long>(s.sleeps.load()),
              static_cast<unsigned long long>(s.lost.load()));
  return s.lost == 0 && s.sleeps > 0 ? 0 : 1;
}
