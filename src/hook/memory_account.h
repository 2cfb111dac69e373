// What this process holds of its slice's memory on one device. The daemon has the truth
// (wire/permit_memory.h); here is a part of it that is held already and not used yet, the headroom,
// so that most allocations cost one subtraction. Any thread at any time; lies in memory that a fork
// wipes, zeros until its first use.
//
// Nobody waits for a daemon for long: one that has not answered for a second is taken for dead, and
// the process goes on with its part of what was left by then. Where no daemon counts, take() always
// says yes, and what was taken is told to the first that does.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "wire/permit_memory.h"

namespace sluice::hook {

class MemoryAccount {
 public:
  // `socket_path` stays as long as the process; `device`: which of the slice's, from 0. Before
  // each use; threads that come first at once all write the same.
  void open(const char* socket_path, uint32_t device) {
    if (__atomic_load_n(&socket_path_, __ATOMIC_ACQUIRE) == socket_path) return;
    __atomic_store_n(&device_, device, __ATOMIC_RELAXED);
    __atomic_store_n(&socket_path_, socket_path, __ATOMIC_RELEASE);
  }

  // So many bytes are about to be allocated. False: they would go over the limit.
  bool take(uint64_t bytes);
  // So many bytes exist, limit or not.
  void add(uint64_t bytes);
  // So many bytes were freed, or not allocated after all.
  void give_back(uint64_t bytes);

  // What the slice has and what of it this process could allocate. False: nobody counts.
  bool look(uint64_t& limit, uint64_t& available);

 private:
  bool take_from_headroom(int64_t bytes);
  bool over_limit() const;
  int64_t keep() const;
  int64_t used() const { return held_ - __atomic_load_n(&headroom_, __ATOMIC_RELAXED); }
  void set_held(int64_t held);

  // All under the lock.
  bool cover();
  void shed(int64_t keep);
  void join_when_due();
  void hear_welcome(long size, const sluice_memory_welcome& welcome, int page);
  bool hold(int64_t least, int64_t most);
  bool exchange(const sluice_hold& ask, sluice_held& answer);
  void go_alone();
  bool is_ours(int socket) const;

  int64_t headroom_;  // held and not used; below 0: used and not (yet) held
  const sluice_memory_page* page_;

  const char* socket_path_;
  uint32_t device_;

  pthread_mutex_t lock_;  // of all below: zeros are an unlocked one
  int64_t held_;          // as the daemon has it written down, where there is one
  int64_t alone_most_;    // what may be held without a daemon
  uint64_t request_, next_ns_;
  uint64_t socket_cookie_;
  int socket_;
  bool connected_, refused_;
};

}  // namespace sluice::hook
