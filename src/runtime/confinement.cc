#include "runtime/confinement.h"

#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/fd.h"
#include "base/system_error.h"

namespace sluice::runtime {
namespace {

// Of <linux/landlock.h>; Debian 12's is older than the kernels that we meet.
struct Ruleset {
  uint64_t handled_files = 0, handled_net = 0, scoped = 0;
};
constexpr long kCreateRuleset = 444, kRestrictSelf = 446;
constexpr uint32_t kAskVersion = 1;
constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1;
constexpr uint64_t kRemoveAndMake = ((1 << 13) - 1) & ~((1 << 4) - 1);  // bits 4 to 12
constexpr uint64_t kRefer = 1 << 13, kTruncate = 1 << 14;               // versions 2 and 3
constexpr uint64_t kScopeSignal = 1 << 1;                               // version 6

// A ruleset without a rule forbids all that it handles.
Result<void> forbid_writing() {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 1) return {};  // no Landlock here
  Ruleset rules{.handled_files = kExecute | kWriteFile | kRemoveAndMake};
  if (version >= 2) rules.handled_files |= kRefer;
  if (version >= 3) rules.handled_files |= kTruncate;
  if (version >= 6) rules.scoped = kScopeSignal;
  const size_t size = version >= 6 ? sizeof rules : sizeof rules.handled_files;
  const Fd ruleset(static_cast<int>(::syscall(kCreateRuleset, &rules, size, 0)));
  if (!ruleset.valid() || ::syscall(kRestrictSelf, ruleset.get(), 0) != 0)
    return system_error("landlock");
  return {};
}

void set_soft(decltype(RLIMIT_AS) what, uint64_t value) {
  rlimit now{};
  if (::getrlimit(what, &now) != 0) return;
  now.rlim_cur = std::min<rlim_t>(value, now.rlim_max);
  (void)::setrlimit(what, &now);
}

}  // namespace

Result<void> confine(uid_t uid) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return system_error("no_new_privs");
  if (uid != 0) {
    // Also makes the process undumpable, so that others with its uid cannot trace it.
    if (::setgroups(0, nullptr) != 0) return system_error("setgroups");
    if (::setresgid(uid, uid, uid) != 0) return system_error("setresgid");
    if (::setresuid(uid, uid, uid) != 0) return system_error("setresuid");
  }
  return forbid_writing();
}

uid_t unprivileged_uid() {
  constexpr uid_t kFirst = 0x70000000, kNobody = 65534;  // 0x70000000 and up: nobody's convention
  std::ifstream map("/proc/self/uid_map");
  for (uint64_t inside, outside, count; map >> inside >> outside >> count;)
    if (inside <= kFirst && inside + count > kFirst + (1 << 22)) return kFirst + ::getpid();
  return kNobody;
}

void limit(uint64_t memory, uint64_t cpu_seconds) {
  constexpr uint64_t kMostLog = uint64_t{256} << 20;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  set_soft(RLIMIT_AS, memory);  // a sanitizer reserves address space of its own
#else
  (void)memory;
#endif
  set_soft(RLIMIT_FSIZE, kMostLog);
  set_soft(RLIMIT_CPU, cpu_seconds);
}

void lift_limits() {
  set_soft(RLIMIT_AS, RLIM_INFINITY);
  set_soft(RLIMIT_FSIZE, RLIM_INFINITY);
  set_soft(RLIMIT_CPU, RLIM_INFINITY);
}

}  // namespace sluice::runtime
