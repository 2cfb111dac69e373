// The ledger of device memory at work: accounts for slices, pages that show them, holders that are
// processes and end with them. permit.sock's thread asks for processes, the daemon's loop opens,
// changes and closes accounts. Thread-safe; every call is short.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/fd.h"
#include "base/result.h"
#include "node/memory_ledger.h"
#include "node/memory_page.h"
#include "node/process_identity.h"

namespace sluice::node {

class MemoryDesk {
 public:
  explicit MemoryDesk(uint32_t generation);
  MemoryDesk(const MemoryDesk&) = delete;

  // `context`: what each of its processes takes beside what it allocates.
  Result<MemoryAccount> open(Bytes limit, Bytes context);
  void set_limit(MemoryAccount account, Bytes limit);
  void close(MemoryAccount account);
  MemoryLedger::Account look(MemoryAccount account) const;  // all zero: there is none

  struct Joined {
    MemoryHolder holder = 0;
    Bytes held = 0;
    Fd page;
  };
  // A process of the slice, alive as `pidfd` says. One that comes again has what it had.
  Result<Joined> join(MemoryAccount account, const ProcessIdentity& process, Fd pidfd, Bytes used);
  // As MemoryLedger::hold; nothing where the holder is gone, as it is with its account.
  std::optional<Bytes> hold(MemoryHolder holder, Bytes least, Bytes most);

  // Readable when a holder's process has ended: then bury() gives back what it held.
  int deaths() const { return deaths_.get(); }
  void bury();

 private:
  using Process = std::tuple<MemoryAccount, pid_t, uint64_t>;  // … and its start time
  struct Life {
    Process process;
    Fd pidfd;
  };
  void show(MemoryAccount account);

  const uint32_t generation_;
  const Fd deaths_;  // an epoll of pidfds

  mutable std::mutex mutex_;  // of all below
  MemoryLedger ledger_;
  MemoryAccount last_ = 0;
  std::map<MemoryAccount, MemoryPage> pages_;
  std::map<Process, MemoryHolder> holders_;
  std::map<MemoryHolder, Life> lives_;
};

}  // namespace sluice::node
