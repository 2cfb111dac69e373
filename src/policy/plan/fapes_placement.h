// Which devices of the board a job takes in a round, and which it gives up (FaPES §5.3, reading
// A8). It takes the cheapest that make it faster, and gives up the dearest. Pure.
#pragma once

#include <optional>

#include "policy/plan/board.h"

namespace sluice::policy {

// A round of the board, for one job whose own plan is not on it.
struct FapesRound {
  const Board& board;
  size_t round;
  const Contender& job;
  const Placed& held;  // where its workers are now: of equal nodes, these come first
};

// Drops what the round's nodes do not have free.
Placed within_free(const FapesRound& in, Placed placed);

// Adds devices until there are `size`. A node that lowers the job's throughput comes last; then the
// cheapest comes first, then the one that adds most throughput, one where the job is, and the
// first. Returns false if the board has fewer.
bool grow(const FapesRound& in, int size, Placed& placed);

// Removes devices until there are `size`, from the dearest nodes first. Of equal ones the node with
// the fewest of the job comes first, so that it spans fewer nodes.
void shrink(const FapesRound& in, int size, Placed& placed);

// Returns `size` devices of the cheapest node that has them free; nothing: none has. grow() takes
// cheaper ones apart, over which the job may be slower.
std::optional<Placed> on_one_node(const FapesRound& in, int size);

}  // namespace sluice::policy
