#include "wire/json/model_statistics.h"

#include <gtest/gtest.h>

namespace sluice::wire {
namespace {

const ComputeReport kReport{Nanos(7), {{4, 1, Nanos(10), Nanos(20), Nanos(30)}}};

TEST(ModelStatistics, AReportSurvivesItsWayThroughAHeader) {
  const ComputeReport reports[] = {
      {}, kReport, {Nanos(1), {{4, 2, Nanos(1), Nanos(2), Nanos(3)}, {1, 1, {}, Nanos(9), {}}}}};
  for (const ComputeReport& r : reports) EXPECT_EQ(compute_report_from(to_text(r)), r);
  EXPECT_EQ(to_text(kReport), "7; 4 1 10 20 30");
}

TEST(ModelStatistics, WhatIsNoReportIsNone) {
  std::string long_one = "1";
  for (int i = 0; i < 9; ++i) long_one += "; 1 1 1 1 1";
  for (const std::string& text :
       {std::string(), std::string("x"), std::string("-1"), std::string("1;"),
        std::string("1; 1 1 1 1"), std::string("1; 1 1 1 1 1 1"), std::string("1; 1 1 1 1 -1"),
        std::string("1; 1025 1 1 1 1"), std::string("1; 1 1025 1 1 1"),
        std::string("3600000000001"), std::string("1; 1 1 1 3600000000001 1"),
        std::string("1; 1 1 1 1 99999999999999999999"), long_one})
    EXPECT_EQ(compute_report_from(text), std::nullopt) << text;
}

// An instance may report anything; the gateway copies these figures under a lock.
TEST(ModelStatistics, AreBoundedWhateverInstancesReport) {
  const auto reported = compute_report_from("1; 1024 1 3600000000000 3600000000000 3600000000000");
  ASSERT_TRUE(reported.has_value());
  ModelStatistics s;
  for (int batch = 0; batch <= 1024; ++batch)
    s.succeeded(1, Nanos(1), Nanos(1), {Nanos(1), {{batch, 1, Nanos(1), Nanos(1), Nanos(1)}}});
  EXPECT_EQ(s.by_batch.size(), 256u);
  EXPECT_EQ(s.executions, 1025u) << "the sums have all of them";
  ComputeReport longest{Nanos(0), {8, {1, 1, Nanos::max() / 8, Nanos(1), Nanos(1)}}};
  for (int i = 0; i < 3; ++i) s.succeeded(1, Nanos(1), Nanos::max(), longest);
  EXPECT_EQ(s.queue.total, Nanos::max());
  EXPECT_EQ(s.input.total, Nanos::max());
  EXPECT_EQ(s.by_batch[1].input.total, Nanos::max());
}

// Two requests in one batch, one in two parts, one that failed.
TEST(ModelStatistics, CountsRequestsInferencesAndExecutions) {
  ModelStatistics s;
  s.succeeded(2, Nanos(100), Nanos(5), kReport);
  ComputeReport shared = kReport;
  shared.parts[0].executions = 0;
  s.succeeded(2, Nanos(100), Nanos(6), shared);
  s.succeeded(5, Nanos(300), Nanos(1),
              {Nanos(1), {{4, 1, Nanos(1), Nanos(2), Nanos(3)}, {1, 1, {}, Nanos(9), {}}}});
  s.failed(Nanos(50));
  const auto json = to_json("f", "2", s);
  EXPECT_EQ(json["inference_count"], 9);
  EXPECT_EQ(json["execution_count"], 3);
  const auto is = [&](const char* what, int count, int ns) {
    EXPECT_EQ(json["inference_stats"][what], (nlohmann::json{{"count", count}, {"ns", ns}}))
        << what;
  };
  is("success", 3, 500);
  is("fail", 1, 50);
  is("queue", 3, 12);
  is("compute_input", 3, 21);
  is("compute_infer", 3, 51);
  is("compute_output", 3, 63);
  ASSERT_EQ(json["batch_stats"].size(), 2u);
  EXPECT_EQ(json["batch_stats"][0]["batch_size"], 1);
  EXPECT_EQ(json["batch_stats"][1]["compute_infer"], (nlohmann::json{{"count", 2}, {"ns", 22}}));
}

}  // namespace
}  // namespace sluice::wire
