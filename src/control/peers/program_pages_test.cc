// Pages of metrics of programs that answer, break, and hang.
#include "control/peers/program_pages.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/eventually.h"
#include "wire/http/http.h"

namespace sluice::control {
namespace {

using Handler = std::function<wire::HttpResponse()>;

// A program on a port of its own.
class Program {
 public:
  explicit Program(Handler answer)
      : listening_(std::move(*wire::listen_on({.host = "127.0.0.1", .port = 0}))),
        port_(wire::bound_to(listening_)->port),
        server_(io_, std::move(listening_),
                [this, answer](wire::HttpRequest) -> wire::asio::awaitable<wire::HttpResponse> {
                  ++requests;
                  co_return answer();
                }),
        thread_([this] { io_.run(); }) {}
  ~Program() {
    io_.stop();
    thread_.join();
  }
  MetricsPage page(const InstanceId& id) const {
    return {id, "127.0.0.1:" + std::to_string(port_), "/metrics"};
  }
  std::atomic<int> requests = 0;

 private:
  boost::asio::io_context io_;
  Fd listening_;
  const uint16_t port_;
  wire::HttpServer server_;
  std::thread thread_;
};

wire::HttpResponse counts(double n) {
  return wire::text_response("nv_inference_count{model=\"m\"} " + std::to_string(n) + "\n");
}

TEST(ProgramPages, TheCountsAreOfTheLastFetch) {
  std::atomic<double> count = 5;
  const Program program([&] { return counts(count); });
  ProgramPages pages(Millis(20));
  EXPECT_TRUE(pages.latest().empty());
  pages.watch({program.page("a")});
  const auto counted = [&](double n) {
    const auto all = pages.latest();
    return all.contains("a") && all.at("a").inferences == n;
  };
  EXPECT_TRUE(eventually("the page", [&] { return counted(5); }));
  count = 9;
  EXPECT_TRUE(eventually("the page", [&] { return counted(9); }));
  count = 1e17;
  const int before = program.requests;
  EXPECT_TRUE(eventually("the page", [&] { return program.requests > before + 3; }));
  EXPECT_TRUE(counted(9)) << "no program infers that much";
  count = 2;
  EXPECT_TRUE(eventually("the page", [&] { return counted(2); })) << "it began anew";
  pages.watch({});
  EXPECT_TRUE(pages.latest().empty());
}

TEST(ProgramPages, APageThatFailsHasNoCounts) {
  std::atomic<bool> fails = false;
  const Program program([&] { return fails ? wire::error_response(500, "broken") : counts(5); });
  wire::HttpResponse elsewhere = wire::text_response("");
  elsewhere.result(302);
  elsewhere.set(wire::http::field::location, "/elsewhere");
  const Program redirecting([&] { return elsewhere; });
  const Program large(
      [&] { return wire::text_response("nv_inference_count 1\n" + std::string(1 << 20, '#')); });
  ProgramPages pages(Millis(20));
  pages.watch({program.page("a"),
               redirecting.page("b"),
               large.page("c"),
               {"d", "127.0.0.1:1", "/metrics"},
               {"e", "/a/socket", "/metrics"}});
  EXPECT_TRUE(eventually("the page", [&] { return pages.latest().size() == 1; }));
  fails = true;
  EXPECT_TRUE(eventually("the page", [&] { return pages.latest().empty(); }));
  EXPECT_TRUE(
      eventually("the page", [&] { return redirecting.requests > 2 && large.requests > 2; }));
  EXPECT_TRUE(pages.latest().empty());
  fails = false;
  EXPECT_TRUE(eventually("the page", [&] { return pages.latest().size() == 1; }));
}

TEST(ProgramPages, APageThatHangsIsAskedOnceAtATimeAndDelaysNoOther) {
  const Fd hanging = std::move(*wire::listen_on({.host = "127.0.0.1", .port = 0}));
  const std::string address = "127.0.0.1:" + std::to_string(wire::bound_to(hanging)->port);
  const Program program([] { return counts(5); });
  const auto began = std::chrono::steady_clock::now();
  {
    ProgramPages pages(Millis(20));
    pages.watch({{"a", address, "/metrics"}, program.page("b")});
    EXPECT_TRUE(eventually("the page", [&] { return program.requests > 10; }));
    EXPECT_EQ(pages.latest().size(), 1u);
  }
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took, Seconds(5)) << "and its end waits for none";
}

}  // namespace
}  // namespace sluice::control
