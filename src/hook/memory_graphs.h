// Memory that graphs allocate by nodes of theirs. A driver keeps it apart from its pools, and takes
// it when such a graph is launched or uploaded; charged is what it has reserved for them, which it
// says. Any thread at any time.
#pragma once

#include "hook/memory.h"

namespace sluice::hook {

// Whether any graph of this process allocates; where none does, a launch asks nothing.
extern bool graphs_allocate;

// It is gone.
void forget_graph_memory(CUgraphExec exec);

// Around the launch of an instance of a graph that allocates, one at a time: charges what the
// driver may have to take for it, and afterwards what it has taken. An instance that was launched
// before has its memory still, unless some was given back since, or the driver has it share its
// memory with others.
class GraphRoom {
 public:
  explicit GraphRoom(CUgraphExec exec);
  ~GraphRoom();
  GraphRoom(const GraphRoom&) = delete;
  bool granted() const { return granted_; }  // else there is not so much left
  CUresult filled(CUresult result) {
    filled_ = result == CUDA_SUCCESS;
    return result;
  }

 private:
  const CUgraphExec exec_;
  int device_ = -1;  // below 0: it allocates nothing
  uint64_t taken_ = 0;
  bool granted_ = true, filled_ = false;
};

// Gives back what graphs do not use, as a driver does that has no memory left.
void trim_graph_memory();

template <typename Launch>
CUresult with_graph_memory(CUgraphExec exec, Launch&& launch) {
  if (__builtin_expect(!__atomic_load_n(&graphs_allocate, __ATOMIC_RELAXED), 1)) return launch();
  GraphRoom room(exec);
  return room.granted() ? room.filled(launch()) : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace sluice::hook
