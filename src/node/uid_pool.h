// Uids for instances. A model's template and its instances share one, which is free once the last of
// them has given it back. A uid is reused only after the whole range has been used, so that a dead
// instance's remains are gone by then. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <set>

#include "base/result.h"

namespace sluice::node {

class UidPool {
 public:
  UidPool(uid_t first, uid_t count) : first_(first), count_(count) {}
  Result<uid_t> take();                         // a free one; kExhausted if all are taken
  void keep(uid_t uid) { taken_.insert(uid); }  // for one more instance
  void give_back(uid_t uid) {
    if (const auto one = taken_.find(uid); one != taken_.end()) taken_.erase(one);
  }

 private:
  uid_t first_, count_;
  uid_t next_ = 0;
  std::multiset<uid_t> taken_;  // as often as it is in use
};

}  // namespace sluice::node
