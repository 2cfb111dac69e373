// Memory that graphs allocate and free by their nodes. As with pools, the order of streams is
// ignored: a launch allocates and frees at the moment of the call. Each allocation has memory of
// its own, where a driver lets allocations reuse memory. The caller holds the process's lock.
#pragma once

#include "tests/emulator/driver.h"

namespace sluice::emulator {

// Returns a new address for an allocation of the graph's; 0 if there is none.
std::uint64_t new_graph_block(Call& call, const Graph& graph, CUdevice device, std::uint64_t bytes);
// Returns whether the address lies within one, mapped or not.
bool is_graph_memory(const Driver& driver, std::uint64_t address, std::uint64_t bytes);
// Notes that a node of the graph frees it. Returns whether it may.
bool free_by_node(Driver& driver, const Graph& graph, std::uint64_t pointer);
// Forgets a destroyed graph; what it has allocated stays.
void orphan_blocks_of(Driver& driver, const Graph& graph);

// Allocates the memory behind all of the graph's addresses.
CUresult back_graph_memory(Call& call, const GraphExec& exec);
// Allocates and frees as a launch of the graph does.
CUresult launch_memory_nodes(Call& call, const GraphExec& exec);
// Frees, by cuMemFree or cuMemFreeAsync, what no graph has freed. Returns whether it was a graph's.
bool free_graph_memory(Driver& driver, std::uint64_t pointer);

}  // namespace sluice::emulator
