// Whether any stream of this process waits for the legacy default stream, and it for them. An event
// of ours in the legacy stream, with another thread's work before it, would then make streams wait
// for each other where the program does not.
// Set for good by the first such stream; any thread at any time.
#pragma once

namespace sluice::hook {

extern bool blocking_stream_seen;

inline bool blocking_streams() {
  return __atomic_load_n(&blocking_stream_seen, __ATOMIC_RELAXED);
}
inline void see_blocking_stream() {
  if (!blocking_streams()) __atomic_store_n(&blocking_stream_seen, true, __ATOMIC_RELAXED);
}

}  // namespace sluice::hook
