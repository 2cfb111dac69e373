#include "learn/nccl_tuner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "learn/collective_samples.h"

namespace sluice::learn {
namespace {

using GpuType = Interconnect::GpuType;

constexpr double kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;

// Mean of |model ÷ measured − 1|, per cent; measured are microseconds of `least` bytes, and of four
// times as many each time.
double error_of(const NcclSetup& setup, double least, const std::vector<double>& measured) {
  double sum = 0, bytes = least;
  for (const double us : measured) {
    sum += std::abs(nccl_all_reduce_us(setup, bytes) / us - 1);
    bytes *= 4;
  }
  return 100 * sum / static_cast<double>(measured.size());
}

NcclSetup setup_of(GpuType type, const std::vector<int>& gpus) {
  return nccl_setup(subgraph(cluster_of(type, 4, 2), gpus));
}

std::vector<int> first(int gpus) {
  std::vector<int> all(static_cast<size_t>(gpus));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Published runs of nccl-tests. The bounds are the errors that a fit of launch and bandwidth to all
// sizes of such a run had; of the network's, 3 points more.
TEST(NcclTuner, MeetsMeasuredRuns) {
  const NcclSetup mesh = setup_of(GpuType::kV100, first(8));
  EXPECT_EQ(mesh.channels, 12);
  EXPECT_LT(error_of(mesh, 64,
                     {48.92, 48.47, 48.88, 49.13, 50.35, 52.78, 60.26, 89.27, 147.4, 324.1, 992.7}),
            4.3);
  EXPECT_LT(error_of(setup_of(GpuType::kA100, first(8)), 64,
                     {34.83, 34.56, 36.07, 35.92, 36.18, 37.82, 47.53, 74.78, 112, 226, 584.5,
                      2112.2, 8159.5}),
            5);
  const NcclSetup pcie = setup_of(GpuType::kV100, {0, 1, 4, 5});
  EXPECT_FALSE(pcie.nvlink);
  EXPECT_LT(error_of(pcie, kMiB, {236.8, 892.3, 3532.4, 14'045, 55'825, 222'838}), 2.9);
  NcclSetup network = setup_of(GpuType::kV100, first(16));
  network.tree = false;  // as in that run
  EXPECT_LT(error_of(network, 64,
                     {137.7, 136.4, 151, 140.5, 149.4, 167.7, 243.9, 709.3, 2088.9, 4631.7, 16'964,
                      59'045, 228'178}),
            16);
}

TEST(NcclTuner, ManyBytesTakeWhatTheLinksCarry) {
  const NcclSetup mesh = setup_of(GpuType::kV100, first(8));
  EXPECT_NEAR(1.75 * kGiB / nccl_all_reduce_us(mesh, kGiB) / 1e3, 132, 2);
  const NcclSetup half = setup_of(GpuType::kV100, {0, 1, 2, 3});
  EXPECT_EQ(half.channels, 8);
  EXPECT_NEAR(half.bus_gb_per_second, 88, 1e-9);
}

TEST(NcclTuner, FewBytesTakeATreeOfManyServers) {
  NcclSetup many = setup_of(GpuType::kV100, first(32));
  const double with_tree = nccl_all_reduce_us(many, kKiB);
  many.tree = false;
  EXPECT_LT(with_tree, nccl_all_reduce_us(many, kKiB));
  many.tree = true;
  const double far = nccl_all_reduce_us(many, kGiB);
  many.tree = false;
  EXPECT_EQ(far, nccl_all_reduce_us(many, kGiB));  // by a ring
}

}  // namespace
}  // namespace sluice::learn
