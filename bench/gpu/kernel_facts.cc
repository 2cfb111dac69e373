// kernel_facts: checks the features that permits need of the present kernel, which may be a virtual
// machine's, a container runtime's own, or behind a seccomp profile: sealed pages, a wait on a page
// that cannot be written, the same for a client that may hardly call anything, pidfds, a real-time
// thread. A line each; ends with 1 if a required one is missing.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>

#include "enforce/page.h"

namespace sluice::bench {
namespace {

bool all_there = true;

void tell(bool there, const char* what, bool needed = true) {
  std::printf("%-7s %s%s\n", there ? "yes" : "MISSING", what, needed ? "" : " (not needed)");
  std::fflush(stdout);
  all_there &= there || !needed;
}

// From here on this process may do what a client does at its gate, and end; all else fails.
bool forbid_the_rest() {
  constexpr uint32_t kAllowed[] = {SYS_futex, SYS_write, SYS_read, SYS_exit_group,
                                   SYS_clock_gettime};
  sock_filter program[2 * std::size(kAllowed) + 2];
  size_t length = 0;
  program[length++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (const uint32_t call : kAllowed) {
    program[length++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    program[length++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  program[length++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const sock_fprog filter{static_cast<unsigned short>(length), program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

constexpr int kNoFilter = 2;  // the exit of a client without a filter

// Returns how a client ended (0: well) that sleeps on the permit's word until it changes: woken
// once without a change, then by the change.
int wake_client(const Fd& permit, sluice_permit_page& ours, const std::function<bool()>& prepare) {
  const pid_t client = fork();
  if (client == 0) {
    void* map = mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ, MAP_SHARED, permit.get(), 0);
    if (map == MAP_FAILED) _exit(1);
    if (!prepare()) _exit(kNoFilter);
    const auto* page = static_cast<const sluice_permit_page*>(map);
    const timespec patience{.tv_sec = 10};
    while (__atomic_load_n(&page->seq, __ATOMIC_SEQ_CST) == 1)
      if (syscall(SYS_futex, &page->seq, FUTEX_WAIT, 1, &patience, nullptr, 0) != 0 &&
          errno != EAGAIN && errno != EINTR)
        _exit(3);
    _exit(0);
  }
  const auto wake = [&] {
    return syscall(SYS_futex, &ours.seq, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  };
  int status = 0;
  bool ended = false;
  while (!ended && wake() == 0) ended = waitpid(client, &status, WNOHANG) == client;
  __atomic_store_n(&ours.seq, 2, __ATOMIC_SEQ_CST);
  wake();
  if (!ended) waitpid(client, &status, 0);
  __atomic_store_n(&ours.seq, 1, __ATOMIC_SEQ_CST);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool may_be_realtime() {
  const sched_param priority{.sched_priority = 1};
  const bool may = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
  const sched_param none{};
  sched_setscheduler(0, SCHED_OTHER, &none);
  return may;
}

}  // namespace
}  // namespace sluice::bench

int main() {
  using namespace sluice::bench;
  utsname system{};
  uname(&system);
  std::printf("%s %s %s\n", system.sysname, system.release, system.machine);
  auto made = sluice::node::Pages::make(1);
  tell(made.ok(), "pages in sealed memory (memfd_create, F_SEAL_FUTURE_WRITE)");
  if (!made.ok()) {
    std::printf("        %s\n", made.error().message.c_str());
    return 1;
  }
  auto& [pages, fds] = *made;
  const sluice::Fd& permit = fds.permit;
  void* writable =
      mmap(nullptr, SLUICE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, permit.get(), 0);
  tell(writable == MAP_FAILED, "a client cannot map its permit to write to it");
  tell(wake_client(permit, pages.permit(), [] { return true; }) == 0,
       "FUTEX_WAIT on a page mapped read-only");
  const int forbidden = wake_client(permit, pages.permit(), forbid_the_rest);
  if (forbidden == kNoFilter)
    tell(false, "seccomp filters, to ask for the same behind one", false);
  else
    tell(forbidden == 0, "the same where seccomp leaves futex, read, write and the clock");
  const int self = static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0));
  tell(self >= 0, "pidfd_open");
  tell(may_be_realtime(), "a thread under SCHED_FIFO", false);
  return all_there ? 0 : 1;
}
