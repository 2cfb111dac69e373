// What processes hold of their slices' memory, written down where it outlives the daemon: a file of
// slots, one a process. A slot is written with one call and before the process is told, so that
// whoever reads it after a kill finds at least what the process may use. Not flushed to the disk:
// on a machine that went down nobody holds anything, and the file says of which boot it is.
//
// Its writer is the daemon alone. Not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "model/slice.h"
#include "node/process_identity.h"

namespace sluice::node {

struct Holding {
  std::string slice;  // cut to what a slot has room for, which is more than an instance's id has
  ProcessIdentity process;
  Bytes held = 0, context = 0;

  bool operator==(const Holding&) const = default;
};

class MemoryRecord {
 public:
  using Slot = int64_t;

  // The file is made where there is none, and begun anew where it is of another boot. An error
  // where it cannot be understood, for what it says is held would be lent again; without a daemon
  // before this one on the same boot nothing is held, and such a file is begun anew.
  static Result<MemoryRecord> open(const std::string& path, bool same_boot = true);

  // What was written of a slice before this daemon, once. The slots stay as they are.
  std::map<Slot, Holding> take(const std::string& slice);
  // Frees the slots of all slices that were not taken.
  void forget_others();

  Result<Slot> add(const Holding& holding);
  Result<void> write(Slot slot, const Holding& holding);
  void remove(Slot slot);

 private:
  explicit MemoryRecord(Fd file) : file_(std::move(file)) {}
  Result<bool> is_of(const std::string& boot, bool same_boot) const;
  Result<void> begin(const std::string& boot);
  Result<void> load();

  Fd file_;
  Slot end_ = 1;  // behind all that were ever used; the first is the head
  std::set<Slot> free_;
  std::map<std::string, std::map<Slot, Holding>> before_;
};

}  // namespace sluice::node
