#include "control/peers/metrics_page.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::control {
namespace {

TEST(MetricsPage, TritonsCountersAreSummedOverTheirLabels) {
  const auto counts = program_counts_from(
      "# HELP nv_inference_count Number of inferences performed\n"
      "# TYPE nv_inference_count counter\n"
      "nv_inference_count{model=\"resnet\",version=\"1\"} 640\n"
      "nv_inference_count{model=\"digits\",version=\"1\"} 60.5 1700000000000\n"
      "nv_inference_exec_count{model=\"resnet\",version=\"1\"} 10\r\n"
      "nv_inference_request_duration_us{model=\"resnet\"} 9000\n"
      "nv_inference_queue_duration_us{model=\"resnet\"} 2000\n"
      "nv_inference_compute_infer_duration_us{model=\"resnet\"} 6e3\n"
      "nv_gpu_utilization{gpu_uuid=\"GPU-1\"} 0.5\n"
      "nv_inference_count_of_others 7");
  ASSERT_TRUE(counts);
  EXPECT_EQ(*counts, (ProgramCounts{700.5, 10, 9000, 2000, 6000}));
}

TEST(MetricsPage, WithoutAnInferenceCountItSaysNothing) {
  EXPECT_FALSE(program_counts_from(""));
  EXPECT_FALSE(program_counts_from("nv_inference_exec_count 3\n"));
  EXPECT_EQ(program_counts_from("nv_inference_count 0"), ProgramCounts{});
}

TEST(MetricsPage, ALabelMayHoldBracesAndQuotes) {
  const auto counts = program_counts_from(R"(nv_inference_count{model="a} 9 \"{",v="1"} 5)");
  ASSERT_TRUE(counts);
  EXPECT_EQ(counts->inferences, 5);
}

TEST(MetricsPage, WhatNoCounterCanBeIsPassedOver) {
  for (const char* value : {"NaN", "-1", "+Inf", "Inf", "1e19", "1e999", "x", "", "5x", "{"})
    EXPECT_FALSE(program_counts_from(std::string("nv_inference_count ") + value)) << value;
  EXPECT_FALSE(program_counts_from("nv_inference_count{model=\"5 6"));
  std::string many;
  for (int n = 0; n < 100; ++n) many += "nv_inference_count 1e18\n";
  EXPECT_EQ(program_counts_from(many)->inferences, 1e18);
}

}  // namespace
}  // namespace sluice::control
