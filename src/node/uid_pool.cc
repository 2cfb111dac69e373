#include "node/uid_pool.h"

#include <string>

namespace sluice::node {

Result<uid_t> UidPool::take() {
  for (const bool last : {false, true}) {
    for (; !round_.empty(); round_.pop_front()) {
      const uid_t uid = round_.front();
      if (taken_.contains(uid)) continue;  // kept meanwhile
      round_.pop_front();
      taken_.insert(uid);
      return uid;
    }
    if (!last) begin_round();
  }
  return Error{ErrorKind::kExhausted,
               "all " + std::to_string(count_) + " uids of instances are taken, or own files"};
}

void UidPool::begin_round() {
  const std::set<uid_t> owners = owners_ ? owners_() : std::set<uid_t>();
  for (uid_t uid = first_; uid - first_ < count_; ++uid)
    if (!taken_.contains(uid) && !owners.contains(uid)) round_.push_back(uid);
}

void UidPool::give_back(uid_t uid) {
  if (const auto one = taken_.find(uid); one != taken_.end()) taken_.erase(one);
}

}  // namespace sluice::node
