// Gloo's all-reduce over loopback, measured among threads of this process.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "predict/collective.h"

namespace sluice::bench {

// Returns for each size the shortest of several all-reduces among so many ranks, as a longer one
// also waited for a processor. The ranks are threads with a connection between every two, as
// train/group.h has. Returns kUnavailable if they cannot connect. REQUIRES: ranks ≥ 2; sizes are
// multiples of 4.
Result<std::vector<predict::CollectiveSample>> gloo_all_reduces(int ranks,
                                                                std::span<const size_t> bytes);

}  // namespace sluice::bench
