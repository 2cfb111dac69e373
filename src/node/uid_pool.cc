#include "node/uid_pool.h"

#include <string>

namespace sluice::node {

Result<uid_t> UidPool::take() {
  for (uid_t tried = 0; tried < count_; ++tried) {
    const uid_t uid = first_ + next_;
    next_ = (next_ + 1) % count_;
    if (taken_.contains(uid)) continue;
    taken_.insert(uid);
    return uid;
  }
  return Error{ErrorKind::kExhausted,
               "all " + std::to_string(count_) + " uids of instances are taken"};
}

}  // namespace sluice::node
