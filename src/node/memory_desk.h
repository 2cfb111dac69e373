// The ledger of device memory at work: accounts for slices, pages that show them, holders that are
// processes and end with them. permit.sock's thread asks for processes, the daemon's loop opens,
// changes and closes accounts. Thread-safe; every call is short.
//
// What a process's context takes says its device. Until it has, it is taken for as much as the
// least that any process on the device was found to take beside what it holds. Of the first on a
// device nothing is known: it is not answered (may_answer) before the device has said.
//
// A desk that comes after another finds in the record what processes hold, before they say so. What
// they may have taken while there was no desk (wire/permit_memory.h) is kept for them until they
// come again, or the device says what they have. Of those that cannot be seen from here (peer.h) it
// hears nothing before they come again, or their slice ends.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "node/device_account.h"
#include "node/memory_ledger.h"
#include "node/memory_page.h"
#include "node/memory_record.h"
#include "node/process_identity.h"

namespace sluice::node {

class MemoryDesk {
 public:
  // For the first figure: a watch of the device has one every quarter of a second.
  static constexpr Nanos kFirstFigure = Millis(500);

  MemoryDesk(const Clock& clock, uint32_t generation, MemoryRecord record);
  MemoryDesk(const MemoryDesk&) = delete;

  // A slice has a name that outlives the daemon. All on one device have its account, where it keeps
  // one.
  Result<MemoryAccount> open(const std::string& slice, Bytes limit,
                             std::shared_ptr<const DeviceAccount> device);
  // All slices of before that live are open: of the others nothing is kept.
  void forget_others();
  void set_limit(MemoryAccount account, Bytes limit);
  void close(MemoryAccount account);
  MemoryLedger::Account look(MemoryAccount account) const;    // all zero: there is none
  std::vector<pid_t> processes(MemoryAccount account) const;  // its holders

  struct Joined {
    MemoryHolder holder = 0;
    Bytes held = 0;
    Fd page;
  };
  // A process of the slice, alive as `pidfd` says. One that comes again has what it had.
  Result<Joined> join(MemoryAccount account, const ProcessIdentity& process, Fd pidfd, Bytes used);
  // Whether it is known what a context takes where this process is, or will not be: that is waited
  // for once on each device, and where it tells of processes at all. Else ask again.
  bool may_answer(MemoryHolder holder);
  // As MemoryLedger::hold; nothing where the holder is gone, as it is with its account.
  std::optional<Bytes> hold(MemoryHolder holder, Bytes least, Bytes most);

  // Readable when a holder's process has ended: then bury() gives back what it held.
  int deaths() const { return deaths_.get(); }
  void bury();
  // Hears what devices say of the holders; worth the while a few times a second.
  void hear_devices();

 private:
  using Device = std::shared_ptr<const DeviceAccount>;
  using Process = std::tuple<MemoryAccount, pid_t, uint64_t>;  // … and its start time
  struct Slice {
    std::string name;
    Device device;
    MemoryPage page;
  };
  struct Life {
    Process process;
    Fd pidfd;  // none: not seen from here, and not come yet
    MemoryRecord::Slot slot = 0;
    std::optional<Time> heard_of;  // what its device says is news from then on
  };
  Result<void> restore(MemoryAccount account, Bytes limit);
  Result<MemoryHolder> enter(const Process& process, Fd pidfd, Bytes used);
  void keep(MemoryHolder holder, Life life);
  Result<void> write_down(MemoryHolder holder, const Life& life);
  Holding holding(MemoryHolder holder, const Life& life) const;
  void hear_device(MemoryHolder holder, Life& life);
  void learn_contexts();
  void show(MemoryAccount account);

  const Clock& clock_;
  const uint32_t generation_;
  const Fd deaths_;  // an epoll of pidfds

  mutable std::mutex mutex_;  // of all below
  MemoryLedger ledger_;
  MemoryAccount last_ = 0;
  MemoryRecord record_;
  std::map<MemoryAccount, Slice> slices_;
  std::map<Device, Bytes> contexts_;      // of who comes
  std::map<Device, Time> patience_ends_;  // with devices of whose contexts nothing was known
  std::map<Process, MemoryHolder> holders_;
  std::map<MemoryHolder, Life> lives_;
};

}  // namespace sluice::node
