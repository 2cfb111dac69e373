// Uids for instances. A uid is taken by one program, by several that share a home (program_home.h),
// or by a model's template and its instances; it is free once the last has given it back. Uids are
// given in rounds through the range: one that is taken, or owns files, when a round begins is left
// out of it. So a uid is not used again while its files exist, and not soon after. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <deque>
#include <functional>
#include <set>

#include "base/result.h"

namespace sluice::node {

class UidPool {
 public:
  using OwnersOfFiles = std::function<std::set<uid_t>()>;  // asked when a round begins
  UidPool(uid_t first, uid_t count, OwnersOfFiles owners = {})
      : first_(first), count_(count), owners_(std::move(owners)) {}
  Result<uid_t> take();                         // kExhausted if none is free
  void keep(uid_t uid) { taken_.insert(uid); }  // of an adopted instance, or of a home
  void give_back(uid_t uid);
  bool has(uid_t uid) const { return uid >= first_ && uid - first_ < count_; }

 private:
  void begin_round();

  uid_t first_, count_;
  OwnersOfFiles owners_;
  std::multiset<uid_t> taken_;
  std::deque<uid_t> round_;  // those still to come
};

}  // namespace sluice::node
