// A stream beside each of the program's, on the SMs of its slice (a green context's), so that these
// can change while it runs. One per device and process, in memory that a fork wipes; made by the
// first launch that needs it. Any thread at any time; nothing here waits for the device.
//
// A *part* is a green context: SMs of one range of the slice's. There is one that is current, and
// those before it until what ran there has ended. A *twin* is a stream of a part, with the two
// events that tie a launch in it to the program's stream. Whose twin it is says the table alone, so
// one that is idle may become another's.
//
// The program's own streams are in the primary context. Others' have no twins.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "wire/cuda_abi.h"

namespace sluice::hook {

// Which of a device's SMs, as the permit page says it (sm_range).
using SmRange = uint64_t;

struct Twin {
  CUstream stream;  // null: the slot is free
  CUstream of;      // the program's; a default stream goes by its own handle
  uint32_t thread;  // whose per-thread stream is meant
  uint32_t part;
  uint32_t users;      // launches that are just being made with it
  CUevent fork, join;  // recorded in the program's stream; in the twin
};

class GreenStreams {
 public:
  // A twin of the stream on these SMs, for one launch by this thread; give_back() follows. Null:
  // the launch is to go to the stream itself: all SMs are meant, the driver refuses, or the current
  // context is not the primary one. While a capture is open nothing is made and nothing ended, so a
  // change waits.
  Twin* take(CUdevice device, CUstream stream, SmRange range);
  static void give_back(Twin* twin) { __atomic_sub_fetch(&twin->users, 1, __ATOMIC_RELEASE); }

  // The primary context is about to be released: it would be kept.
  void end_all();

  // What the driver said to the SMs that were asked for last.
  CUresult refusal() const { return __atomic_load_n(&refusal_, __ATOMIC_RELAXED); }

 private:
  static constexpr uint32_t kParts = 4, kTwins = 128, kNoPart = kParts;

  struct Part {
    CUgreenCtx green;  // null: the slot is free
    uint32_t twins;
  };

  void change(CUdevice device, SmRange range);
  CUresult make_part(CUdevice device, SmRange range, Part& part);
  Twin* twin_of(CUstream stream, uint32_t thread);
  bool make_twin(Twin& twin, CUstream stream);
  void end_twin(Twin& twin);
  void end_idle_parts();
  void forget();

  pthread_mutex_t mutex_;
  CUcontext primary_;
  uint64_t primary_id_;  // another context may get its address
  SmRange range_;        // asked for last; 0: nothing was
  uint32_t current_;     // part + 1; 0: all SMs
  uint32_t old_;         // parts that are not current
  CUresult refusal_;
  Part parts_[kParts];
  Twin twins_[kTwins];
};

// Null where there is no memory for it.
GreenStreams* green_streams(CUdevice device);
// Before a use of the primary context is given back.
void end_green_streams(CUdevice device);

}  // namespace sluice::hook
