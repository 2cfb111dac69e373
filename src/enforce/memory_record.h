// What processes hold of their slices' memory, kept in a file that outlives the daemon, one slot a
// process. A slot is written with one call, before the process is answered. After a kill the file
// thus shows at least what the process may use. It is not flushed to the disk: a reboot ends every
// holder, and the file names its boot.
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
#include "process/process_identity.h"

namespace sluice::node {

struct Holding {
  std::string slice;  // cut to the slot's size, which fits any instance's id
  ProcessIdentity process;
  Bytes held = 0, context = 0;

  bool operator==(const Holding&) const = default;
};

class MemoryRecord {
 public:
  using Slot = int64_t;

  // Opens the file, or makes it if it is missing or of another boot. Returns an error if it cannot
  // be understood, because the memory that it records would be lent again. Without an earlier
  // daemon on the same boot nothing is held, and such a file is begun anew.
  static Result<MemoryRecord> open(const std::string& path, bool same_boot = true);

  // Returns, once, what an earlier daemon recorded of a slice. The slots stay as they are.
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
  Slot end_ = 1;  // behind all slots ever used; the first is the head
  std::set<Slot> free_;
  std::map<std::string, std::map<Slot, Holding>> before_;
};

}  // namespace sluice::node
