#include "wire/http/prometheus.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::wire {
namespace {

using Type = MetricFamily::Type;

TEST(Prometheus, AFamilyIsItsHeadAndItsSamples) {
  std::string out;
  MetricFamily f(out, "sluice_things", Type::kGauge, "Things.");
  f.add({}, 3);
  f.add(with({{"a", "1"}}, "b", "say \"so\"\\\n"), 0.5);
  f.add({{"a", "2"}}, std::numeric_limits<double>::infinity());
  EXPECT_EQ(out,
            "# HELP sluice_things Things.\n"
            "# TYPE sluice_things gauge\n"
            "sluice_things 3\n"
            "sluice_things{a=\"1\",b=\"say \\\"so\\\"\\\\\\n\"} 0.5\n"
            "sluice_things{a=\"2\"} +Inf\n");
}

TEST(Prometheus, AHistogramIsCumulativeAndInSeconds) {
  Histogram h;
  h.add(Millis(2));
  h.add(Millis(200));
  h.add(Seconds(100));
  std::string out;
  MetricFamily(out, "d_seconds", Type::kHistogram, "Durations.").add({{"f", "x"}}, h);
  for (const char* line :
       {"d_seconds_bucket{f=\"x\",le=\"0.001\"} 0\n", "d_seconds_bucket{f=\"x\",le=\"0.005\"} 1\n",
        "d_seconds_bucket{f=\"x\",le=\"0.25\"} 2\n", "d_seconds_bucket{f=\"x\",le=\"30\"} 2\n",
        "d_seconds_bucket{f=\"x\",le=\"+Inf\"} 3\n", "d_seconds_sum{f=\"x\"} 100.202\n",
        "d_seconds_count{f=\"x\"} 3\n"})
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
}

TEST(Prometheus, SizesAreCumulativeAndInBytes) {
  SizeHistogram h;
  h.add(0);
  h.add(1024);
  h.add(1025);
  h.add(uint64_t{1} << 30);
  std::string out;
  MetricFamily(out, "b_bytes", Type::kHistogram, "Bodies.").add({}, h);
  for (const char* line :
       {"b_bytes_bucket{le=\"256\"} 1\n", "b_bytes_bucket{le=\"1024\"} 2\n",
        "b_bytes_bucket{le=\"4096\"} 3\n", "b_bytes_bucket{le=\"67108864\"} 3\n",
        "b_bytes_bucket{le=\"+Inf\"} 4\n", "b_bytes_sum 1073743873\n", "b_bytes_count 4\n"})
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
}

}  // namespace
}  // namespace sluice::wire
