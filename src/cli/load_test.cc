#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cmath>
#include <thread>

#include "cli/load_report.h"
#include "cli/load_run.h"
#include "sim/arrivals.h"
#include "sim/rate_file.h"

namespace sluice::cli {
namespace {

using sim::Arrivals;
using sim::parse_rates;

std::vector<double> arrivals(const RatePlan& plan, Gaps gaps, uint64_t seed = 1) {
  Arrivals a(plan, gaps, seed);
  std::vector<double> out;
  while (const auto t = a.next()) out.push_back(seconds(*t));
  return out;
}

TEST(Arrivals, AConstantLoadIsEvenAndFollowsItsPlan) {
  const auto t = arrivals({{Seconds(2), 2}, {Seconds(1), 0}, {Seconds(1), 4}},
                          {.kind = Gaps::Kind::kConstant});
  const std::vector<double> want{0.5, 1.0, 1.5, 3.0, 3.25, 3.5, 3.75};
  ASSERT_EQ(t.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(t[i], want[i], 1e-6);
}

TEST(Arrivals, RandomLoadsHaveTheirRateAndTheirSpread) {
  for (const Gaps gaps : {Gaps{}, Gaps{Gaps::Kind::kGamma, 0.5}, Gaps{Gaps::Kind::kGamma, 3}}) {
    const RatePlan plan{{Seconds(2000), 20}, {Seconds(1000), 40}};
    const auto t = arrivals(plan, gaps, 7);
    EXPECT_NEAR(static_cast<double>(t.size()), total_requests(plan), 0.04 * total_requests(plan));
    double sum = 0, squares = 0;
    double n = 0;
    for (size_t i = 1; i < t.size() && t[i] < 2000; ++i) {
      ++n;
      sum += t[i] - t[i - 1];
      squares += (t[i] - t[i - 1]) * (t[i] - t[i - 1]);
    }
    const double mean = sum / n;
    EXPECT_NEAR(std::sqrt(squares / n - mean * mean) / mean, gaps.cv, 0.1 * gaps.cv);
  }
}

// Kolmogorov-Smirnov: the largest distance between the gaps' distribution and 1 − exp(−λx). If they
// are the same, it exceeds 1.95 / √n for one seed in a thousand.
TEST(Arrivals, GapsOfAPoissonLoadAreExponentialAndIndependent) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    constexpr double kRate = 50;
    const auto t = arrivals({{Seconds(400), kRate}}, {}, seed);
    std::vector<double> gaps;
    for (size_t i = 1; i < t.size(); ++i) gaps.push_back(t[i] - t[i - 1]);
    const auto n = static_cast<double>(gaps.size());

    double mean = 0, variance = 0, together = 0;
    for (const double g : gaps) mean += g / n;
    for (size_t i = 0; i < gaps.size(); ++i) {
      variance += (gaps[i] - mean) * (gaps[i] - mean) / n;
      if (i > 0) together += (gaps[i] - mean) * (gaps[i - 1] - mean) / n;
    }
    EXPECT_LT(std::abs(together / variance), 4 / std::sqrt(n)) << "seed " << seed;

    std::ranges::sort(gaps);
    double distance = 0;
    for (size_t i = 0; i < gaps.size(); ++i) {
      const double want = 1 - std::exp(-kRate * gaps[i]);
      distance = std::max({distance, std::abs(want - static_cast<double>(i) / n),
                           std::abs(want - static_cast<double>(i + 1) / n)});
    }
    EXPECT_LT(distance, 1.95 / std::sqrt(n)) << "seed " << seed;
  }
}

// The counts of a renewal process over long windows vary by its gaps' CV²: variance ÷ mean.
TEST(Arrivals, CountsVaryAsTheirGapsDo) {
  for (const Gaps gaps : {Gaps{Gaps::Kind::kConstant}, Gaps{Gaps::Kind::kGamma, 0.5}, Gaps{},
                          Gaps{Gaps::Kind::kGamma, 2}}) {
    const double want = gaps.kind == Gaps::Kind::kConstant ? 0 : gaps.cv * gaps.cv;
    std::vector<double> counts(2000);
    for (const double t : arrivals({{Seconds(2000 * 5), 20}}, gaps, 11))
      ++counts[std::min<size_t>(counts.size() - 1, static_cast<size_t>(t / 5))];
    double mean = 0, variance = 0;
    for (const double c : counts) mean += c / static_cast<double>(counts.size());
    for (const double c : counts)
      variance += (c - mean) * (c - mean) / static_cast<double>(counts.size());
    EXPECT_NEAR(mean, 100, 1.5);
    EXPECT_NEAR(variance / mean, want, 0.15 * want + 0.01);
  }
}

TEST(Arrivals, SameSeedSameLoad) {
  const RatePlan plan{{Seconds(10), 50}};
  EXPECT_EQ(arrivals(plan, {}, 3), arrivals(plan, {}, 3));
  EXPECT_NE(arrivals(plan, {}, 3), arrivals(plan, {}, 4));
}

TEST(RateFile, ReadsStepsDurationsAndComments) {
  const auto plan = parse_rates("# burst\n1.5\n\n500ms 20 # peak\n2m\t3\r\n", {.scale = 2});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(*plan, (RatePlan{{Seconds(1), 3}, {Millis(500), 40}, {Seconds(120), 6}}));
}

TEST(RateFile, FaultsNameTheLineTheTextAndWhatIsAllowed) {
  const auto fault = [](std::string_view text) { return parse_rates(text).error().message; };
  EXPECT_EQ(fault("1\nx"), "line 2: rate: 'x' is no number from 0 to 1000000 a second");
  EXPECT_EQ(fault("-1"), "line 1: rate: '-1' is no number from 0 to 1000000 a second");
  EXPECT_EQ(fault("nan"), "line 1: rate: 'nan' is no number from 0 to 1000000 a second");
  EXPECT_EQ(fault("5q 1"), "line 1: duration: '5q' is none like 500ms, 5s, 2m (1ms to 24h)");
  EXPECT_EQ(fault("0s 1"), "line 1: duration: '0s' is none like 500ms, 5s, 2m (1ms to 24h)");
  EXPECT_EQ(fault("501e-32 0"),
            "line 1: duration: '501e-32' is none like 500ms, 5s, 2m (1ms to 24h)");
  EXPECT_EQ(fault("\n# nothing\n"), "rates: there is no step in it");
}

// A server holds the first request for a while: those behind it waited too, though they were sent
// late. Only lower bounds, which a slow machine cannot break.
TEST(Load, LatencyCountsFromTheIntendedSendTime) {
  constexpr Nanos kStall = Millis(300);
  Fd listening = std::move(*wire::listen_on({.host = "127.0.0.1"}));
  const wire::Endpoint at = *wire::bound_to(listening);
  wire::asio::io_context io{1};
  bool first = true;
  wire::HttpServer server(io, std::move(listening),
                          [&](wire::HttpRequest) -> wire::asio::awaitable<wire::HttpResponse> {
                            if (std::exchange(first, false)) {
                              boost::asio::steady_timer stall(
                                  co_await boost::asio::this_coro::executor, kStall);
                              co_await stall.async_wait(boost::asio::use_awaitable);
                            }
                            co_return wire::json_response({});
                          });
  std::thread serving([&] { io.run(); });
  const LoadTarget target{
      .path = "/", .plan = {{Millis(100), 100}}, .gaps = {Gaps::Kind::kConstant}};
  const LoadResult r = run_load({target}, {.server = at, .connections = 1}).at(0);
  io.stop();
  serving.join();
  ASSERT_EQ(r.ok, r.sent);
  ASSERT_GE(r.sent, 9u);
  for (size_t i = 0; i < r.latencies.size(); ++i)  // sent 10 ms after one another
    EXPECT_GE(r.latencies[i], kStall - static_cast<int64_t>(i + 1) * Millis(10)) << i;
}

TEST(Load, MoreThanCanBeSentEndsAndSaysHowMuchWasSent) {
  const wire::Endpoint at{.host = "127.0.0.1", .port = 0};
  auto listening = std::move(*wire::listen_on(at));
  const wire::Endpoint bound = *wire::bound_to(listening);
  boost::asio::io_context io;
  wire::HttpServer server(io, std::move(listening),
                          [](wire::HttpRequest) -> wire::asio::awaitable<wire::HttpResponse> {
                            co_return wire::json_response({});
                          });
  std::thread serving([&] { io.run(); });
  const LoadTarget target{.name = "f", .path = "/", .plan = {{Millis(200), 200'000}}};
  const LoadResult r =
      run_load({target}, {.server = bound, .connections = 1, .timeout = Millis(300)}).at(0);
  io.stop();
  serving.join();
  EXPECT_GT(r.sent, kMostWaiting) << "of about 40,000";
  EXPECT_EQ(r.ok + r.failed, r.sent);
  EXPECT_LT(r.went_out, r.sent);
  EXPECT_EQ(r.faults.at(0), "no connection became free");
  const auto lines = missed_rates({r}, 1);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("requests/s were asked for, "), std::string::npos) << lines[0];
  EXPECT_TRUE(missed_rates({{.name = "g", .planned_rate = 100, .rate = 99}}, 1).empty());
}

TEST(RateFile, IsCutOrRepeatedToALength) {
  const RatePlan plan{{Seconds(2), 1}, {Seconds(1), 5}};
  EXPECT_EQ(fit_to(plan, Seconds(1)), (RatePlan{{Seconds(1), 1}}));
  EXPECT_EQ(fit_to(plan, Seconds(4)),
            (RatePlan{{Seconds(2), 1}, {Seconds(1), 5}, {Seconds(1), 1}}));
}

TEST(LoadReport, AFunctionThatAnsweredNothingMakesTheLoadAFailure) {
  const auto of = [](const char* name, uint64_t sent, uint64_t ok) {
    LoadResult r;
    r.name = name;
    r.sent = sent;
    r.ok = ok;
    return r;
  };
  EXPECT_TRUE(anything_answered({of("f", 5, 5)}).ok());
  EXPECT_TRUE(anything_answered({of("f", 5, 1)}).ok()) << "a poor load, but a load";
  EXPECT_TRUE(anything_answered({of("f", 0, 0)}).ok()) << "nothing was asked";
  EXPECT_EQ(anything_answered({of("f", 5, 5), of("g", 3, 0)}).error().message,
            "g: none of 3 requests was answered with 200");
}

TEST(LoadReport, AMissedObjectiveIsSaidWithByWhat) {
  const LoadTarget target{.slo = Millis(300)};
  LoadResult r{.name = "f", .sent = 100, .ok = 98, .shed = 2, .late = 3};
  r.latencies.assign(95, Millis(100));
  r.latencies.insert(r.latencies.end(), 3, Millis(412));
  EXPECT_TRUE(missed_objectives({target}, {r}).empty()) << "5 % may be";
  r.shed = 3;
  r.sent = 101;
  r.latencies.insert(r.latencies.end(), 3, Millis(412));
  EXPECT_EQ(missed_objectives({target}, {r}),
            std::vector<std::string>{
                "f: objective missed: p95 is 412ms, the objective 300ms; 5.9% of the requests "
                "were late, shed or failed, 5% may be"});
  EXPECT_TRUE(missed_objectives({{}}, {r}).empty()) << "there is no objective";
  EXPECT_TRUE(missed_objectives({target}, {LoadResult{}}).empty()) << "nothing was asked";
}

TEST(LoadReport, MoreFailuresThanAllowedAreAnError) {
  LoadResult r;
  r.name = "f";
  r.sent = 200;
  r.shed = 1;
  r.failed = 2;
  r.late = 50;  // but answered
  r.ok = 197;
  EXPECT_TRUE(few_failures({r}, 1.5).ok());
  EXPECT_EQ(few_failures({r}, 1).error().message,
            "f: 3 of 200 requests were shed or failed; --max-failures allows 1 %");
  EXPECT_TRUE(few_failures({LoadResult{}}, 0).ok()) << "nothing was asked";
}

}  // namespace
}  // namespace sluice::cli
