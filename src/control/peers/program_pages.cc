#include "control/peers/program_pages.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <utility>

#include "base/log.h"
#include "control/peers/metrics_page.h"
#include "wire/http/await.h"
#include "wire/http/endpoint.h"
#include "wire/http/http_stream.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using wire::kAwait;

constexpr Nanos kPatience = Seconds(1);
constexpr size_t kLargest = 1 << 20;
constexpr double kMostPerSecond = 1e9;  // inferences; a counter that rises faster holds nonsense

Error fault_of(const boost::system::error_code& fault) {
  return {ErrorKind::kUnavailable, fault.message()};
}

asio::awaitable<Result<std::string>> get(asio::ip::tcp::endpoint at, std::string path) {
  wire::Stream stream{asio::any_io_executor(co_await asio::this_coro::executor)};
  stream.expires_after(kPatience);  // for all that follows
  if (const auto [fault] = co_await stream.async_connect(at, kAwait); fault)
    co_return fault_of(fault);
  http::request<http::empty_body> request(http::verb::get, path, 11);
  request.set(http::field::host,
              at.address().is_loopback() ? "localhost" : at.address().to_string());
  request.set(http::field::connection, "close");
  if (const auto [fault, n] = co_await http::async_write(stream, request, kAwait); fault)
    co_return fault_of(fault);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> answer;
  answer.body_limit(kLargest);
  if (const auto [fault, n] = co_await http::async_read(stream, buffer, answer, kAwait); fault)
    co_return fault_of(fault);
  if (const unsigned status = answer.get().result_int(); status != 200)
    co_return Error{ErrorKind::kUnavailable, "is answered " + std::to_string(status)};
  co_return std::move(answer.get().body());
}

// A page without an inference count is sound: its program counts under other names.
asio::awaitable<Result<std::optional<ProgramCounts>>> counts_of(const MetricsPage& page) {
  const Result<wire::Endpoint> at = wire::parse_endpoint(page.address);
  if (!at.ok() || !at->path.empty())
    co_return Error{ErrorKind::kInvalid, "the program has no port"};
  boost::system::error_code no_address;
  const auto host = asio::ip::make_address(at->host, no_address);
  if (no_address) co_return Error{ErrorKind::kInvalid, "the program has no address of IP"};
  const Result<std::string> text = co_await get({host, at->port}, page.path);
  if (!text.ok()) co_return text.error();
  co_return program_counts_from(*text);
}

}  // namespace

ProgramPages::ProgramPages(Nanos every)
    : every_(every), thread_([this] {
        asio::co_spawn(io_, run(), asio::detached);
        io_.run();
      }) {}

ProgramPages::~ProgramPages() {
  io_.stop();
  thread_.join();
}

void ProgramPages::watch(const std::vector<MetricsPage>& pages) {
  const std::lock_guard lock(mutex_);
  std::map<InstanceId, std::shared_ptr<Watched>> next;
  for (const MetricsPage& page : pages) {
    const auto known = pages_.find(page.instance);
    const bool same = known != pages_.end() && known->second->page == page;
    next[page.instance] = same ? known->second : std::make_shared<Watched>(Watched{.page = page});
  }
  pages_ = std::move(next);
}

std::map<InstanceId, ProgramCounts> ProgramPages::latest() const {
  const std::lock_guard lock(mutex_);
  std::map<InstanceId, ProgramCounts> all;
  for (const auto& [id, watched] : pages_)
    if (watched->counts) all.emplace(id, *watched->counts);
  return all;
}

// Returns the pages that are not being fetched, marked as such.
std::vector<std::shared_ptr<ProgramPages::Watched>> ProgramPages::begin_all() {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Watched>> due;
  for (const auto& [id, watched] : pages_)
    if (!std::exchange(watched->under_way, true)) due.push_back(watched);
  return due;
}

asio::awaitable<void> ProgramPages::run() {
  asio::steady_timer timer(io_);
  for (;;) {
    timer.expires_after(every_);
    co_await timer.async_wait(kAwait);
    for (const std::shared_ptr<Watched>& due : begin_all())
      asio::co_spawn(io_, fetch(due), asio::detached);
  }
}

asio::awaitable<void> ProgramPages::fetch(std::shared_ptr<Watched> watched) {
  const MetricsPage page = watched->page;
  const auto fetched = co_await counts_of(page);
  const std::lock_guard lock(mutex_);
  take(*watched, fetched);
  watched->under_way = false;
}

void ProgramPages::take(Watched& w, const Result<std::optional<ProgramCounts>>& fetched) {
  if (!fetched.ok()) {
    if (!std::exchange(w.failed_once, true))
      log::warn("{}: server.metrics: {}: {}", w.page.instance, w.page.path,
                fetched.error().message);
    w.counts.reset();
    return;
  }
  const Time now = clock_.now();
  const bool risen = w.counts && *fetched;
  const double most = kMostPerSecond * seconds(now - w.counted_at);
  if (risen && (*fetched)->inferences - w.counts->inferences > most) return;
  w.counts = *fetched;
  w.counted_at = now;
}

}  // namespace sluice::control
