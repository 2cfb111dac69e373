// Claims of uids on this machine, so that no two platforms give instances the same uid. A claim is
// a record lock on a range of bytes, one per uid, of a file that all platforms share; the kernel
// drops it with the daemon. Instances outlive a daemon, so a block is not free either while a
// process runs in it that is no instance of the claimant's.
//
// The daemon makes one claim for its life. As for base/lock_file.h, closing any other descriptor of
// the file drops the lock. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sluice::node {

inline constexpr char kUidClaims[] = "/run/sluice-uids.lock";
inline constexpr uid_t kUidsPerBlock = 1000;
inline uid_t block_of(uid_t uid) {
  return uid / kUidsPerBlock * kUidsPerBlock;
}
// The last of a block: of all functions' programs under MPS, and of their servers.
inline uid_t mps_user(uid_t first) {
  return first + kUidsPerBlock - 1;
}

struct UidRequest {
  std::string file = kUidClaims;
  uid_t first = 0;        // of the block; 0: that of `ours` or `files`, else a free one
  std::set<uid_t> ours;   // of instances that an earlier daemon of this platform started
  std::set<uid_t> files;  // that own files of this platform's: their blocks come before others
};

struct UidClaim {
  uid_t first = 0;
  Fd lock;
  std::string passed_over;  // why it is not the usual block; empty: it is
};

// Claims uids first … first + kUidsPerBlock − 1. Returns kConflict if the requested block is taken,
// with the process in the message; kExhausted if no block is free.
Result<UidClaim> claim_uids(const UidRequest& request);

}  // namespace sluice::node
