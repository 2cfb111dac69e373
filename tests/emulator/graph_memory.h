// Memory that graphs allocate and free by nodes of theirs. As with pools, the order of streams is
// not watched: a launch has its memory, and has freed it, at the moment of the call; and each
// allocation has memory of its own, where a driver lets one's follow another's. The process's lock
// is held.
#pragma once

#include "tests/emulator/driver.h"

namespace sluice::emulator {

// A new address for an allocation of the graph's; 0: there is none.
std::uint64_t new_graph_block(Call& call, const Graph& graph, CUdevice device, std::uint64_t bytes);
// Whether it is within one, whatever lies behind it.
bool is_graph_memory(const Driver& driver, std::uint64_t address, std::uint64_t bytes);
// A node of the graph frees it; whether it may.
bool free_by_node(Driver& driver, const Graph& graph, std::uint64_t pointer);
// The graph goes; what it has allocated does not.
void orphan_blocks_of(Driver& driver, const Graph& graph);

// Sees to it that there is memory behind all that the graph allocates.
CUresult back_graph_memory(Call& call, const GraphExec& exec);
// What a launch allocates and frees.
CUresult launch_memory_nodes(Call& call, const GraphExec& exec);
// What no graph has freed, by cuMemFree or cuMemFreeAsync. Whether it is of that kind.
bool free_graph_memory(Driver& driver, std::uint64_t pointer);

}  // namespace sluice::emulator
