// What a job's progress is worth beside that of others. Pure.
//
// Devices are divided by weighted proportional fairness: largest is Σ w_j·log(goodput_j), with
//
//   w_j = x_j^−e,   x_j: seconds of work left for one worker.
//
// A logarithm has no least value, so no job is left without devices for others' sake, and a device
// goes where it is worth the largest *part* of a goodput: units do not count. e = 0 is an equal
// share for all. The larger e is, the more jobs that end soon come first, which makes the mean
// completion time small. With linear speed-ups a job has devices in proportion to its weight.
#pragma once

#include <span>
#include <vector>

#include "policy/plan/jobs.h"

namespace sluice::policy {

// Returns the weights of the jobs. One of unknown length counts as the median of the others does;
// 1: none is known. `exponents`: e of each.
std::vector<double> job_weights(const std::vector<Job>& jobs, std::span<const double> exponents);

}  // namespace sluice::policy
