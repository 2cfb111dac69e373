#include "cli/load_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/span_body.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cmath>
#include <deque>
#include <list>
#include <memory>

#include "enforce/cgroup.h"
#include "wire/http/await.h"

namespace sluice::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Stream = beast::basic_stream<asio::generic::stream_protocol, asio::any_io_executor>;
using LoadRequest = http::request<http::span_body<const char>>;  // its body is the target's
using wire::kAwait;
constexpr size_t kFaultsKept = 3;
constexpr uint64_t kSentATurn = 64;
constexpr Nanos kLagAllowed = Millis(200);  // of the last request, for a rate to count as reached

struct Connection {
  explicit Connection(asio::io_context& io) : stream(asio::any_io_executor(io.get_executor())) {
    buffer.reserve(16 * 1024);
  }
  Stream stream;
  beast::flat_buffer buffer;
  bool kept = false;  // from an earlier request
};

class Player {
 public:
  Player(const std::vector<LoadTarget>& targets, const LoadOptions& options,
         const std::atomic<bool>* stop)
      : options_(options), stop_(stop), slots_(options.connections) {
    if (options.server.path.empty()) {
      boost::system::error_code fault;
      const auto ip = asio::ip::make_address(options.server.host, fault);
      address_ = asio::ip::tcp::endpoint(fault ? asio::ip::address_v4::loopback() : ip,
                                         options.server.port);
    } else {
      address_ = asio::local::stream_protocol::endpoint(options.server.path);
    }
    for (const LoadTarget& target : targets) results_.push_back({.name = target.name});
    start_ = std::chrono::steady_clock::now() + Millis(20);
    for (size_t i = 0; i < targets.size(); ++i)
      asio::co_spawn(io_, send_all(targets[i], results_[i]), asio::detached);
  }

  void run(const LoadProgress& progress) {
    std::function<void()> report = [&] {
      tick_.expires_after(Seconds(1));
      tick_.async_wait([&](boost::system::error_code fault) {
        if (fault || open_ == 0) return;
        progress(std::chrono::steady_clock::now() - start_, results_);
        report();
      });
    };
    if (progress) report();
    io_.run();
  }

  std::vector<LoadResult> take() { return std::move(results_); }

 private:
  asio::awaitable<void> send_all(const LoadTarget& target, LoadResult& result) {
    ++open_;
    sim::Arrivals arrivals(target.plan, target.gaps, target.seed);
    asio::steady_timer timer(io_);
    LoadRequest request{target.method, target.path, 11};
    request.set(http::field::host, "sluice");
    request.set(http::field::content_type, target.content_type);
    if (target.json_bytes > 0)
      request.set("Inference-Header-Content-Length", std::to_string(target.json_bytes));
    if (!target.token.empty()) request.set(http::field::authorization, "Bearer " + target.token);
    request.body() = {target.body.data(), target.body.size()};
    request.prepare_payload();
    Nanos last{0};
    while (const auto at = arrivals.next()) {
      const auto intended = start_ + *at;
      last = *at;
      if (intended > std::chrono::steady_clock::now()) {
        timer.expires_at(intended);
        co_await timer.async_wait(kAwait);
      } else if (result.sent % kSentATurn == 0) {
        co_await asio::post(io_, kAwait);  // behind its plan: answers are read meanwhile
      }
      if (stop_ != nullptr && stop_->load()) break;
      ++result.sent;
      ++open_;
      request.set("X-Request-Id", std::to_string(result.sent));  // none repeats another
      asio::co_spawn(io_, send_one(request, target.slo, intended, result), asio::detached);
    }
    const Nanos lag = std::chrono::steady_clock::now() - start_ - last;
    const Nanos planned = std::max(last, Nanos(1));
    result.planned_rate = static_cast<double>(result.sent) / seconds(planned);
    result.rate =
        static_cast<double>(result.went_out) / seconds(lag > kLagAllowed ? planned + lag : planned);
    closed();
  }

  // No connection is left: the report need not wait for its next second.
  void closed() {
    if (--open_ == 0) tick_.cancel();
  }

  asio::awaitable<void> send_one(LoadRequest request, Nanos slo,
                                 std::chrono::steady_clock::time_point intended,
                                 LoadResult& result) {
    std::string fault;
    const int status = co_await exchange(request, intended + options_.timeout, fault, result);
    const Nanos latency = std::chrono::steady_clock::now() - intended;
    if (status / 100 == 2) {
      ++result.ok;
      result.latencies.push_back(latency);
      if (slo > Nanos(0) && latency > slo) ++result.late;
    } else if (status == 429) {
      ++result.shed;
    } else {
      ++result.failed;
      if (result.faults.size() < kFaultsKept) result.faults.push_back(fault);
    }
    closed();
  }

  // Returns the status of the answer; 0 and a fault if there was none.
  asio::awaitable<int> exchange(const LoadRequest& request,
                                std::chrono::steady_clock::time_point until, std::string& fault,
                                LoadResult& result) {
    if (!co_await take_slot(until)) {
      fault = "no connection became free";
      co_return 0;
    }
    ++result.went_out;
    const int status = co_await exchange_in_slot(request, until, fault);
    give_slot();
    co_return status;
  }

  asio::awaitable<int> exchange_in_slot(const LoadRequest& request,
                                        std::chrono::steady_clock::time_point until,
                                        std::string& fault) {
    // A kept connection may be closed meanwhile, and so may all the others: then a fresh one is
    // used.
    for (bool must_be_fresh = false;; must_be_fresh = true) {
      std::unique_ptr<Connection> c = kept();
      if (must_be_fresh) c.reset();
      if (!c) {
        c = std::make_unique<Connection>(io_);
        c->stream.expires_at(until);
        if (const auto [broken] = co_await c->stream.async_connect(address_, kAwait); broken) {
          fault = "connect: " + broken.message();
          co_return 0;
        }
      }
      c->stream.expires_at(until);
      http::response<http::string_body> response;
      auto [broken, n] = co_await http::async_write(c->stream, request, kAwait);
      if (!broken)
        std::tie(broken, n) = co_await http::async_read(c->stream, c->buffer, response, kAwait);
      if (broken) {
        fault = broken.message();
        if (!c->kept || broken == beast::error::timeout) co_return 0;
        continue;
      }
      const int status = static_cast<int>(response.result_int());
      if (status != 200) fault = std::to_string(status) + " " + response.body().substr(0, 200);
      if (response.keep_alive()) {
        c->stream.expires_never();
        c->kept = true;
        idle_.push_back(std::move(c));
      }
      co_return status;
    }
  }

  std::unique_ptr<Connection> kept() {
    if (idle_.empty()) return nullptr;
    auto c = std::move(idle_.back());
    idle_.pop_back();
    return c;
  }

  // A slot is the right to use a connection. There are as many as the allowed connections, and
  // waiting requests get them in order.
  asio::awaitable<bool> take_slot(std::chrono::steady_clock::time_point until) {
    if (slots_ > 0) {
      --slots_;
      co_return true;
    }
    if (waiting_.size() >= kMostWaiting) co_return false;
    asio::steady_timer bell(io_, until);
    Turn turn{bell};
    const auto place = waiting_.insert(waiting_.end(), &turn);
    co_await bell.async_wait(kAwait);
    if (!turn.has_slot) waiting_.erase(place);
    co_return turn.has_slot;
  }
  void give_slot() {
    if (waiting_.empty()) {
      ++slots_;
      return;
    }
    waiting_.front()->has_slot = true;
    waiting_.front()->bell.cancel();
    waiting_.pop_front();
  }

  const LoadOptions options_;
  const std::atomic<bool>* const stop_;
  asio::io_context io_{1};
  asio::steady_timer tick_{io_};
  asio::generic::stream_protocol::endpoint address_;
  std::chrono::steady_clock::time_point start_;
  std::deque<std::unique_ptr<Connection>> idle_;
  std::vector<LoadResult> results_;
  struct Turn {
    asio::steady_timer& bell;
    bool has_slot = false;
  };
  std::list<Turn*> waiting_;  // for a slot
  int slots_;
  int open_ = 0;  // senders and requests in progress
};

}  // namespace

double LoadResult::violations_pct() const {
  return sent == 0 ? 0.0
                   : 100.0 * static_cast<double>(late + shed + failed) / static_cast<double>(sent);
}

Nanos quantile(std::vector<Nanos> values, double q) {
  if (values.empty()) return Nanos(0);
  const double rank = std::ceil(q * static_cast<double>(values.size()));
  const size_t index =
      static_cast<size_t>(std::clamp(rank, 1.0, static_cast<double>(values.size()))) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(index), values.end());
  return values[index];
}

std::vector<LoadResult> run_load(const std::vector<LoadTarget>& targets, const LoadOptions& options,
                                 const LoadProgress& progress, const std::atomic<bool>* stop) {
  // A load that waits for a core would measure itself. Without the right to a priority, it may.
  ::setpriority(PRIO_PROCESS, 0, node::kReserveNice);
  Player player(targets, options, stop);
  player.run(progress);
  return player.take();
}

}  // namespace sluice::cli
