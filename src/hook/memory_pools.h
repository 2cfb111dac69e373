// Memory pools are charged for what they have reserved, which only they know: they give back at
// moments of their own. Any thread at any time.
#pragma once

#include "hook/memory_account.h"

namespace sluice::hook {

// Looks at all pools of this process, and gives back what they have.
void settle_pools();

// As account.take(); if need be, after graphs have given back what they keep for later, all pools
// what they have, and then what they keep, as a driver does that has no memory left.
bool take_from_all(MemoryAccount& account, uint64_t bytes);
// The same, but for graphs.
bool take_from_pools(MemoryAccount& account, uint64_t bytes);

}  // namespace sluice::hook
