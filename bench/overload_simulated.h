// The simulated part of **overload**: every bundle below capacity. One function on four devices
// that do 50 requests a second each, offered 50, 70 and 90 % of that, with Poisson arrivals and
// with the gaps of Azure's LLM trace (conversations, 2023) scaled to the same rate. A batch of one
// to four takes 80 ms, give or take a tenth; the objective is 400 ms.
//
// The reference is a clairvoyant admission: the same seed played again, and exactly those refused
// that were late when all were admitted. Where refusing them brought nothing, admitting all counts.
#pragma once

#include "bench/report.h"

namespace sluice::bench {

// Adds a row for each bundle and kind of gaps: of the loads, the one with the largest distance.
void below_capacity(Report& report, uint64_t seed);

}  // namespace sluice::bench
