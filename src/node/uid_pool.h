// Uids for instances, each with one owner at a time. A uid is reused only after the whole range has
// been used, so that a dead instance's remains are gone by then. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <set>

#include "base/result.h"

namespace sluice::node {

class UidPool {
 public:
  UidPool(uid_t first, uid_t count) : first_(first), count_(count) {}
  Result<uid_t> take();                         // kExhausted if all are taken
  void keep(uid_t uid) { taken_.insert(uid); }  // of an adopted instance
  void give_back(uid_t uid) { taken_.erase(uid); }

 private:
  uid_t first_, count_;
  uid_t next_ = 0;
  std::set<uid_t> taken_;
};

}  // namespace sluice::node
