// The gate against a daemon of a few lines: pages made here, grants written by hand.
#include "wire/permit.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "wire/permit_nap.h"

extern "C" int sluice_test_from_c(struct sluice_gate* gate);

namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint64_t now() {
  return sluice_clock(CLOCK_MONOTONIC);
}

// One pair of pages and the daemon's view of them.
class Daemon {
 public:
  Daemon() {
    permit_fd_ = memfd_create("permit", MFD_CLOEXEC);
    usage_fd_ = memfd_create("usage", MFD_CLOEXEC);
    bell_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    EXPECT_EQ(ftruncate(permit_fd_, SLUICE_PAGE_SIZE), 0);
    EXPECT_EQ(ftruncate(usage_fd_, SLUICE_PAGE_SIZE), 0);
    permit = static_cast<sluice_permit_page*>(map(permit_fd_));
    usage = static_cast<sluice_usage_page*>(map(usage_fd_));
    permit->header = {SLUICE_PERMIT_MAGIC, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 1, 0};
    usage->header = {SLUICE_USAGE_MAGIC, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 1, 0};
    permit->seq = 1;
    permit->request = 200;
    permit->window_ns = 20'000'000;
    permit->millicores = 1000;
    beat();
  }
  ~Daemon() {
    munmap(permit, SLUICE_PAGE_SIZE);
    munmap(usage, SLUICE_PAGE_SIZE);
    close(bell_fd_);
  }

  bool attach(sluice_gate& gate) {
    const int fds[3] = {fcntl(permit_fd_, F_DUPFD_CLOEXEC, 0), fcntl(usage_fd_, F_DUPFD_CLOEXEC, 0),
                        fcntl(bell_fd_, F_DUPFD_CLOEXEC, 0)};
    return sluice_attach_pages(&gate, sluice_process_of(&gate), fds, -1);
  }
  void beat(int64_t shifted_by = 0) {
    __atomic_store_n(&permit->heartbeat_ns, now() + shifted_by, __ATOMIC_RELAXED);
  }
  void grant(uint64_t budget = kSecond, uint64_t valid_for = 60 * kSecond, int64_t shifted_by = 0) {
    beat(shifted_by);
    const uint64_t t = now() + shifted_by;
    sluice_permit_grant(permit, budget, t + valid_for, t);
    sluice_permit_wake(permit, usage);
  }
  void revoke() { sluice_permit_revoke(permit); }
  uint32_t waiting() const { return __atomic_load_n(&usage->waiting, __ATOMIC_SEQ_CST); }
  uint32_t want() const { return __atomic_load_n(&usage->want, __ATOMIC_SEQ_CST); }
  uint32_t ack() const { return __atomic_load_n(&usage->ack_seq, __ATOMIC_SEQ_CST); }
  bool rang() {
    uint64_t count;
    return read(bell_fd_, &count, sizeof count) == sizeof count;
  }
  void await_waiting(uint32_t n) {
    while (waiting() != n) {
      beat();
      std::this_thread::yield();
    }
  }

  sluice_permit_page* permit;
  sluice_usage_page* usage;

 private:
  static void* map(int fd) {
    return mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  int permit_fd_, usage_fd_, bell_fd_;
};

struct Client {
  explicit Client(sluice_gate& g) : gate(g) {}
  void pass() { sluice_gate_pass(&gate, &mine); }
  sluice_gate& gate;
  sluice_thread* mine = nullptr;
};

// A thread that waits for `count` units of work to pass.
class Worker {
 public:
  explicit Worker(sluice_gate& gate, int count = 1)
      : thread_([this, &gate, count] {
          Client client(gate);
          for (int i = 0; i < count; ++i) client.pass();
          done_ = true;
        }) {}
  ~Worker() { join(); }
  bool done() const { return done_; }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

TEST(PermitPage, IsRefusedUnlessItIsOneWeUnderstand) {
  const sluice_page_header good{SLUICE_PERMIT_MAGIC, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 7, ~0u};
  EXPECT_TRUE(sluice_header_ok(&good, SLUICE_PERMIT_MAGIC));
  EXPECT_FALSE(sluice_header_ok(&good, SLUICE_USAGE_MAGIC));
  for (auto spoil : {+[](sluice_page_header& h) { h.magic ^= 1; },
                     +[](sluice_page_header& h) { h.version = SLUICE_WIRE_VERSION + 1; },
                     +[](sluice_page_header& h) { h.version = 0; },
                     +[](sluice_page_header& h) { h.size = SLUICE_PAGE_SIZE - 1; }}) {
    sluice_page_header bad = good;
    spoil(bad);
    EXPECT_FALSE(sluice_header_ok(&bad, SLUICE_PERMIT_MAGIC));
  }
}

TEST(PermitPage, AttachingToAnythingElseFailsAndHarmsNothing) {
  sluice_gate gate{};
  Daemon daemon;
  daemon.permit->header.version = 99;
  EXPECT_FALSE(daemon.attach(gate));
  const int fds[3] = {memfd_create("short", 0), -1, -1};
  EXPECT_FALSE(sluice_attach_pages(&gate, sluice_process_of(&gate), fds, -1));
  close(fds[0]);
  Client(gate).pass();
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_OPEN);
}

TEST(PermitPage, ReadersNeverMixTwoGrants) {
  sluice_permit_page page{};
  page.seq = 1;
  std::atomic<bool> stop{false};
  std::thread daemon([&] {
    for (uint64_t k = 1; k <= 200'000; ++k) {
      const sluice_grant grant{0, 2 * k, k, 3 * k, 4 * k, 5 * k};
      sluice_permit_write(&page, &grant);
      if (k % 3 == 0) sluice_permit_revoke(&page);
    }
    stop = true;
  });
  uint64_t last = 0;
  while (!stop) {
    sluice_grant g;
    if (!sluice_permit_read(&page, &g)) continue;
    ASSERT_EQ(g.valid_until_ns, 2 * g.budget_ns);
    ASSERT_EQ(g.now_ns, 3 * g.budget_ns);
    ASSERT_EQ(g.allowed_ns, 4 * g.budget_ns);
    ASSERT_EQ(g.in_flight_ns, 5 * g.budget_ns);
    ASSERT_GE(g.budget_ns, last);
    last = g.budget_ns;
  }
  daemon.join();
}

// Each round submits a unit of 3 and finishes it.
TEST(PermitPage, NoUnitIsFinishedBeforeItIsSubmitted) {
  Daemon daemon;
  std::atomic<bool> over{false};
  std::thread client([&] {
    sluice_device_report r{};
    for (int i = 0; i < 200'000; ++i) {
      r.seen_ns += 1;
      r.submitted_ns += 3;
      sluice_device_report_write(daemon.usage, &r);
      r.finished_ns += 3;
      sluice_device_report_write(daemon.usage, &r);
    }
    over = true;
  });
  while (!over) {
    const sluice_device_report r = sluice_device_report_read(daemon.usage, 2);
    ASSERT_LE(r.finished_ns, r.submitted_ns);
    ASSERT_GE(r.submitted_ns, 3 * r.seen_ns);
  }
  client.join();
}

TEST(PermitPage, ReportsOfBothVersionsSayTheSame) {
  Daemon daemon;
  daemon.usage->device_busy_ns = 100;
  daemon.usage->device_in_flight_ns = 30;
  daemon.usage->device_longest_ns = 20;
  const sluice_device_report first = sluice_device_report_read(daemon.usage, 1);
  EXPECT_EQ(first.submitted_ns, 130u);
  EXPECT_EQ(first.finished_ns, 100u);
  EXPECT_EQ(first.longest_ns, 20u);
  EXPECT_EQ(first.host_ns, 0u) << "it counts as device-bound";
  const sluice_device_report second = sluice_device_report_read(daemon.usage, 2);
  EXPECT_EQ(second.submitted_ns, 0u);
}

// The end is never newer than the beginning: what is confirmed was alone.
TEST(PermitPage, ATimeAloneIsNeverTakenForLongerThanItWas) {
  sluice_permit_page page{};
  std::atomic<bool> over{false};
  std::thread daemon([&] {
    for (uint64_t now = 10; now < 1'000'000; now += 10) {
      const bool alone = now / 1000 % 2 == 0;  // from each even thousand on
      const sluice_time_alone time{alone ? now / 1000 * 1000 : SLUICE_PARKED, now};
      sluice_say_alone(&page, &time);
    }
    over = true;
  });
  while (!over) {
    const sluice_time_alone time = sluice_read_alone(&page);
    if (time.since_ns == SLUICE_PARKED || time.until_ns < time.since_ns) continue;
    ASSERT_EQ(time.until_ns / 1000, time.since_ns / 1000);
  }
  daemon.join();
}

TEST(PermitPage, SeqSkipsZeroWhenItWraps) {
  sluice_permit_page page{};
  page.seq = UINT32_MAX - 1;
  sluice_permit_grant(&page, 1, 1, 1);
  EXPECT_EQ(page.seq, 2u);
}

class AttachedGate : public testing::Test {
 protected:
  AttachedGate() { EXPECT_TRUE(daemon.attach(gate)); }

  sluice_gate gate{};
  Daemon daemon;
};

TEST(Gate, IsOpenWhereThereIsNoDaemonAtAll) {
  sluice_gate gate{"/nonexistent/permit.sock"};
  Client client(gate);
  errno = 4242;
  for (int i = 0; i < 1000; ++i) client.pass();
  EXPECT_EQ(errno, 4242);
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_OPEN);
}

TEST_F(AttachedGate, WorksFromC) {
  daemon.grant();
  EXPECT_EQ(sluice_test_from_c(&gate), SLUICE_GATE_ATTACHED);
}

TEST_F(AttachedGate, BlocksUntilGrantedAndRingsTheBell) {
  Worker worker(gate);
  daemon.await_waiting(1);
  EXPECT_FALSE(worker.done());
  EXPECT_EQ(daemon.want(), 1u);
  while (!daemon.rang()) std::this_thread::yield();
  daemon.grant();
  worker.join();
  EXPECT_EQ(daemon.waiting(), 0u);
}

TEST_F(AttachedGate, StopsAtTheNextUnitWhenRevokedAndSaysSo) {
  daemon.grant();
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    Client client(gate);
    while (!stop) client.pass();
  });
  while (__atomic_load_n(&daemon.usage->units, __ATOMIC_RELAXED) == 0) daemon.beat();
  daemon.revoke();
  daemon.await_waiting(1);
  EXPECT_EQ(daemon.ack(), daemon.permit->seq);
  stop = true;
  daemon.grant();
  worker.join();
}

TEST_F(AttachedGate, IsAcknowledgedOnlyWhenTheLastThreadHasStopped) {
  daemon.grant();
  Client busy(gate);
  busy.pass();  // this thread now runs a long operator
  daemon.revoke();
  Worker other(gate);
  daemon.await_waiting(1);
  EXPECT_NE(daemon.ack(), daemon.permit->seq);
  sluice_gate_idle_begin(busy.mine);
  EXPECT_EQ(daemon.ack(), daemon.permit->seq);
  daemon.grant();
}

TEST_F(AttachedGate, StopsWhenItsBudgetIsSpent) {
  daemon.grant(3'000'000);
  const uint64_t cpu = sluice_clock(CLOCK_PROCESS_CPUTIME_ID);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    Client client(gate);
    while (!stop) client.pass();
  });
  daemon.await_waiting(1);
  EXPECT_GE(sluice_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu, 2'900'000u);  // not before
  EXPECT_EQ(daemon.ack(), daemon.permit->seq | 1u);
  stop = true;
  daemon.grant();
  worker.join();
}

TEST_F(AttachedGate, StopsAtTheDeadlineWithItsBudgetUnspent) {
  daemon.grant(kSecond, 0);
  Worker worker(gate);
  daemon.await_waiting(1);
  daemon.grant();
}

TEST_F(AttachedGate, WantsWhileAnyThreadHasWork) {
  daemon.grant();
  Client client(gate);
  client.pass();
  EXPECT_EQ(daemon.want(), 1u);
  Worker(gate).join();  // ends without a report: only the kernel knows
  EXPECT_EQ(daemon.want(), 2u);
  sluice_gate_idle_begin(client.mine);
  sluice_gate_idle_begin(client.mine);
  EXPECT_EQ(daemon.want(), 1u);
  sluice_gate_idle_end(&gate, client.mine);
  sluice_gate_idle_end(&gate, client.mine);
  EXPECT_EQ(daemon.want(), 2u);
  client.pass();
  EXPECT_EQ(daemon.want(), 2u);
}

TEST_F(AttachedGate, RingsWhenIdleOnlyIfSomebodyElseWaits) {
  daemon.grant();
  Client client(gate);
  client.pass();
  sluice_gate_idle_begin(client.mine);
  EXPECT_FALSE(daemon.rang());
  client.pass();  // the parked permit still holds
  __atomic_store_n(&daemon.permit->flags, SLUICE_CONTENDED, __ATOMIC_RELAXED);
  sluice_gate_idle_begin(client.mine);
  EXPECT_TRUE(daemon.rang());
}

TEST_F(AttachedGate, GoesOnAtItsRequestWhenTheDaemonFallsSilent) {
  Worker worker(gate, 10'000);  // never granted anything
  worker.join();
  EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_ALONE);
}

TEST_F(AttachedGate, AloneIsNoFasterThanTheRequest) {
  __atomic_store_n(&daemon.permit->flags, SLUICE_CLOSED, __ATOMIC_RELAXED);
  Client client(gate);
  client.pass();
  const uint64_t start = now(), cpu = sluice_clock(CLOCK_PROCESS_CPUTIME_ID);
  while (now() - start < kSecond / 2) client.pass();
  const double share = static_cast<double>(sluice_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu) /
                       static_cast<double>(now() - start);
  EXPECT_LE(share, 0.30);  // request 200 ‰
}

// Time namespaces shift the clock: the grant is then judged by the page's own time.
TEST(Gate, RunsUnderAClockThatIsShifted) {
  for (int64_t shift : {-10'000'000'000, 10'000'000'000}) {
    sluice_gate gate{};
    Daemon daemon;
    ASSERT_TRUE(daemon.attach(gate));
    daemon.grant(kSecond, 60 * kSecond, shift);
    Client client(gate);
    client.pass();
    EXPECT_EQ(daemon.waiting(), 0u);
    EXPECT_EQ(sluice_gate_state(&gate), SLUICE_GATE_ATTACHED);
    EXPECT_NEAR(static_cast<double>(client.mine->at->skew_ns), static_cast<double>(-shift), 1e9);
  }
}

// A daemon that is newer than this gate may send more descriptors than fit.
TEST(Attach, TakesThreeDescriptorsAndNoFourth) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const int sent[4] = {0, 0, 0, 0};
  char byte = 1;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof sent)] = {};
  msghdr message{.msg_iov = &data, .msg_iovlen = 1};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof sent);
  memcpy(CMSG_DATA(head), sent, sizeof sent);
  ASSERT_EQ(sendmsg(ends[0], &message, MSG_NOSIGNAL), 1);

  struct {
    int fds[3];
    int behind;
  } taken = {{}, 42};
  EXPECT_EQ(sluice_receive(ends[1], &byte, 1, taken.fds), 1);
  EXPECT_EQ(taken.behind, 42);
  for (const int fd : taken.fds) EXPECT_EQ(close(fd), 0);
  for (const int end : ends) close(end);
}

TEST(Gate, MovesToNewPagesAtItsNextCheckpoint) {
  sluice_gate gate{};
  Daemon first, second;
  ASSERT_TRUE(first.attach(gate));
  first.grant();
  Client client(gate);
  client.pass();
  ASSERT_TRUE(second.attach(gate));
  second.grant();
  for (int i = 0; i < 100; ++i) client.pass();
  EXPECT_EQ(first.want(), 0u);
  EXPECT_EQ(second.want(), 1u);
}

TEST_F(AttachedGate, AForkedChildFindsNothingOfItsParents) {
  daemon.grant();
  Client client(gate);
  client.pass();
  const pid_t child = fork();
  if (child == 0) {
    if (gate.process->current != nullptr) _exit(1);
    client.pass();  // alone, at the request
    _exit(sluice_gate_state(&gate) == SLUICE_GATE_ALONE ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(daemon.want(), 1u);  // the child counted nothing in its parent's page
  client.pass();
}

TEST_F(AttachedGate, ManyThreadsManyGrants) {
  std::atomic<int> left{4};
  std::thread workers[4];
  for (std::thread& w : workers)
    w = std::thread([&] {
      Client client(gate);
      for (int i = 0; i < 20'000; ++i) client.pass();
      sluice_gate_idle_begin(client.mine);
      --left;
    });
  while (left > 0) {
    daemon.grant();
    std::this_thread::yield();
    daemon.revoke();
  }
  for (std::thread& w : workers) w.join();
  EXPECT_EQ(daemon.want(), 0u);
  EXPECT_EQ(daemon.waiting(), 0u);
}

TEST(Nap, LeavesTheThreadAsItWas) {
  constexpr int kSlackNs = 12'345;
  const int before = prctl(PR_GET_TIMERSLACK);
  ASSERT_EQ(prctl(PR_SET_TIMERSLACK, kSlackNs), 0);
  errno = ENOENT;
  const uint64_t then = now();
  sluice_nap(20'000);
  EXPECT_GE(now() - then, 20'000u);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(prctl(PR_GET_TIMERSLACK), kSlackNs);
  prctl(PR_SET_TIMERSLACK, before);
}

TEST(Gate, ReusesTheSlotsOfThreadsThatHaveEnded) {
  sluice_gate gate{};
  for (int i = 0; i < 3 * SLUICE_THREADS; ++i) Worker(gate).join();
  Client client(gate);
  client.pass();
  EXPECT_NE(client.mine, nullptr);
}

}  // namespace
