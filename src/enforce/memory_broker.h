// The server of device memory around the ledger: accounts for slices, pages that show them, and
// holders that are processes and end with them. permit.sock's thread asks for processes; the
// daemon's loop opens, changes and closes accounts. Thread-safe; every call is short.
//
// The device reports what a process's context takes. Until then the context is taken for the least
// that any process on the device was found to take beside what it holds. For the first process on a
// device no such figure exists, so it is not answered (may_answer) before the device has reported.
//
// A server that follows another one finds in the record what processes hold. What they may have
// taken without a server (wire/permit_memory.h) is kept for them until they connect again, or the
// device reports what they have. Processes that cannot be seen from here (peer.h) stay as recorded
// until they connect again or their slice ends.
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
#include "enforce/device_account.h"
#include "enforce/memory_ledger.h"
#include "enforce/memory_page.h"
#include "enforce/memory_record.h"
#include "process/process_identity.h"

namespace sluice::node {

class MemoryBroker {
 public:
  // For the first figure: a watch of the device takes one every quarter of a second.
  static constexpr Nanos kFirstFigure = Millis(500);

  MemoryBroker(const Clock& clock, uint32_t generation, MemoryRecord record);
  MemoryBroker(const MemoryBroker&) = delete;

  // Opens a slice's account. The slice's name outlives the daemon. All slices on a device have its
  // account, if it keeps one.
  Result<MemoryAccount> open(const std::string& slice, Bytes limit,
                             std::shared_ptr<const DeviceAccount> device);
  // Forgets the record of all slices not yet open: those that still live have been opened.
  void forget_others();
  void set_limit(MemoryAccount account, Bytes limit);
  void close(MemoryAccount account);
  MemoryLedger::Account look(MemoryAccount account) const;    // all zero: no such account
  std::vector<pid_t> processes(MemoryAccount account) const;  // the account's holders

  struct Joined {
    MemoryHolder holder = 0;
    Bytes held = 0;
    Fd page;
  };
  // Adds a process of the slice, watched by `pidfd`. A process that joins again keeps what it held.
  Result<Joined> join(MemoryAccount account, const ProcessIdentity& process, Fd pidfd, Bytes used);
  // Returns whether the size of a context where this process is has been reported, or will not be:
  // the server waits for it once per device, and only on devices that report processes. If false,
  // ask again.
  bool may_answer(MemoryHolder holder);
  // As MemoryLedger::hold; returns nothing if the holder is gone, or its account is.
  std::optional<Bytes> hold(MemoryHolder holder, Bytes least, Bytes most);

  // Readable when a holder's process has ended: then reap() frees what it held.
  int deaths() const { return deaths_.get(); }
  void reap();
  // Takes the devices' figures of the holders; call it a few times a second.
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
    Fd pidfd;  // none: not seen from here, and not joined yet
    MemoryRecord::Slot slot = 0;
    std::optional<Time> heard_of;  // figures of the device from then on are news
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

  mutable std::mutex mutex_;  // guards all below
  MemoryLedger ledger_;
  MemoryAccount last_ = 0;
  MemoryRecord record_;
  std::map<MemoryAccount, Slice> slices_;
  std::map<Device, Bytes> contexts_;      // of a new process
  std::map<Device, Time> patience_ends_;  // ends of waits for devices whose contexts were unknown
  std::map<Process, MemoryHolder> holders_;
  std::map<MemoryHolder, Life> lives_;
};

}  // namespace sluice::node
