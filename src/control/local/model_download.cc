#include "control/local/model_download.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>

#include "control/spec/model_url.h"
#include "wire/http/await.h"
#include "wire/http/http_connection.h"

namespace sluice::control {
namespace {

namespace asio = boost::asio;
using wire::error_code;

constexpr Nanos kBeat = Millis(50);  // so often it is seen whether to stop

// One request: its answer's head, and what went wrong.
class OneDownload {
 public:
  using Take = std::function<Result<void>(std::string_view piece)>;

  OneDownload(const std::string& url, const ModelUrl& parsed, const DownloadLimits& limits,
              const wire::TlsContext& tls)
      : url_(url),
        limits_(limits),
        connection_(io_, {.at = {.host = parsed.host, .port = parsed.port},
                          .tls = parsed.tls ? tls : nullptr}),
        request_(wire::http::verb::get, parsed.target, 11) {
    const bool bare = parsed.port == (parsed.tls ? 443 : 80);
    request_.set(wire::http::field::host,
                 parsed.host + (bare ? "" : ":" + std::to_string(parsed.port)));
    request_.set(wire::http::field::user_agent, "sluice");
    head_.result(0U);  // none yet
  }

  // Returns where to go on; nothing: all of the file has been taken.
  Result<std::optional<std::string>> run(const std::atomic<bool>& stopped, const Take& take) {
    const auto on_part = [&](std::string_view part) {
      if (head_.result_int() != 200) return connection_.close();  // an answer's own words
      received_ += part.size();
      if (received_ > limits_.bytes)
        failed_ = Error{ErrorKind::kInvalid,
                        url_ + ": has more than " + std::to_string(limits_.bytes) + " bytes"};
      else if (const auto taken = take(part); !taken.ok())
        failed_ = taken.error();
      if (failed_) connection_.close();
    };
    error_code fault;
    asio::co_spawn(io_, fetch(on_part), [&](std::exception_ptr broken, error_code ended) {
      fault = broken ? error_code(asio::error::fault) : ended;
      done_ = true;
      watch_.cancel();
    });
    asio::co_spawn(io_, watch(stopped), asio::detached);
    io_.run();
    return outcome(fault);
  }

 private:
  asio::awaitable<error_code> fetch(std::function<void(std::string_view)> on_part) {
    if (const error_code fault = co_await connection_.connect(limits_.silence); fault)
      co_return fault;
    co_return co_await connection_.stream(request_, head_, on_part, limits_.silence);
  }
  // Ends it when it is to stop, or has taken too long.
  asio::awaitable<void> watch(const std::atomic<bool>& stopped) {
    for (Nanos passed{0}; passed < limits_.whole && !stopped && !done_; passed += kBeat) {
      watch_.expires_after(kBeat);
      if (const auto [ended] = co_await watch_.async_wait(wire::kAwait); ended) co_return;
    }
    if (done_) co_return;
    failed_ = stopped ? Error{ErrorKind::kUnavailable, "the platform is shutting down"}
                      : Error{ErrorKind::kTimeout,
                              url_ + ": took longer than " +
                                  std::to_string(static_cast<int>(seconds(limits_.whole))) +
                                  " s. Apply again once its server is faster"};
    connection_.close();
  }
  Result<std::optional<std::string>> outcome(error_code fault) const {
    const int status = static_cast<int>(head_.result_int());
    if (failed_) return *failed_;
    if (status / 100 == 3 && head_.count(wire::http::field::location) > 0) {
      SLUICE_ASSIGN(next, redirected(url_, std::string(head_[wire::http::field::location])));
      return std::optional(next);
    }
    if (status != 0 && status != 200)
      return Error{status >= 500 || status == 429 ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
                   url_ + ": its server answers " + std::to_string(status) + " " +
                       std::string(head_.reason()) +
                       ". Correct storageUri, or put the file there, and apply again"};
    if (!fault) return std::optional<std::string>();
    const bool late = fault == wire::beast::error::timeout;
    return Error{
        late ? ErrorKind::kTimeout : ErrorKind::kUnavailable,
        url_ + ": cannot be fetched: " + fault.message() + ". Apply again once its server answers"};
  }

  const std::string& url_;
  const DownloadLimits& limits_;
  asio::io_context io_{1};
  wire::HttpConnection connection_;
  asio::steady_timer watch_{io_};
  wire::HttpRequest request_;
  wire::HttpResponse head_;
  uint64_t received_ = 0;
  bool done_ = false;
  std::optional<Error> failed_;
};

}  // namespace

Result<void> download(const std::string& url, const DownloadLimits& limits,
                      const wire::TlsContext& tls, const std::atomic<bool>& stopped,
                      const std::function<Result<void>(std::string_view piece)>& take) {
  std::string at = url;
  for (int hops = 0; hops <= limits.redirects; ++hops) {
    SLUICE_ASSIGN(parsed, parse_model_url(at));
    SLUICE_ASSIGN(next, OneDownload(at, parsed, limits, tls).run(stopped, take));
    if (!next) return {};
    at = *next;
  }
  return Error{ErrorKind::kInvalid,
               url + ": redirects more than " + std::to_string(limits.redirects) + " times"};
}

}  // namespace sluice::control
