// Memory pools are charged for what they have reserved, which only they know: they give back at
// moments of their own. Any thread at any time.
#pragma once

namespace sluice::hook {

// Looks at all pools of this process, and gives back what they have.
void settle_pools();

}  // namespace sluice::hook
