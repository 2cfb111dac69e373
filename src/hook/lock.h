// A mutex of this process, held while it lives; the caller's errno stays. The mutex may lie in
// memory that a fork wipes: zeros are one that nobody holds.
#pragma once

#include <errno.h>
#include <pthread.h>

namespace sluice::hook {

class Lock {
 public:
  explicit Lock(pthread_mutex_t& mutex) : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~Lock() {
    pthread_mutex_unlock(&mutex_);
    errno = errno_;
  }
  Lock(const Lock&) = delete;

 private:
  pthread_mutex_t& mutex_;
  const int errno_ = errno;
};

}  // namespace sluice::hook
