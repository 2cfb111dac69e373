#include "kube/client.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <vector>

#include "wire/http/await.h"
#include "wire/http/http_connection.h"

namespace sluice::kube {
namespace {

using nlohmann::json;
using wire::error_code;
using wire::HttpConnection;
using wire::HttpRequest;
using wire::HttpResponse;
using wire::kAwait;

constexpr size_t kKept = 8;              // connections between calls
constexpr Nanos kSilent = Seconds(330);  // of a stream: a watch ends after 300 s
constexpr Nanos kLongestPause = Seconds(30);

// A rate: so many calls at once, then on average so many a second.
class Budget {
 public:
  explicit Budget(const ClientLimits& limits)
      : interval_(static_cast<int64_t>(1e9 / limits.calls_a_second)),
        burst_(interval_ * limits.burst),
        next_(Clock::now()) {}

  // Returns how long the next call has to wait.
  std::chrono::nanoseconds take() {
    const auto now = Clock::now();
    next_ = std::max(next_, now - burst_) + interval_;
    return std::max<std::chrono::nanoseconds>(next_ - now, Nanos(0));
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::nanoseconds interval_, burst_;
  Clock::time_point next_;
};

// A token that is kept in a file, which a kubelet replaces.
class Token {
 public:
  explicit Token(const Config& config) : file_(config.token_file), text_(config.token) {}

  const std::string& text() {
    if (file_.empty()) return text_;
    std::error_code gone;
    const auto changed = std::filesystem::last_write_time(file_, gone);
    if (gone || changed == changed_) return text_;
    std::ifstream in(file_);
    std::string read;
    if (in >> read) {
      text_ = std::move(read);
      changed_ = changed;
    }
    return text_;
  }

 private:
  const std::string file_;
  std::string text_;
  std::filesystem::file_time_type changed_{};
};

// Splits what arrives into lines.
class Lines {
 public:
  explicit Lines(std::function<void(std::string_view)> on_line) : on_line_(std::move(on_line)) {}

  void add(std::string_view part) {
    for (size_t end; (end = part.find('\n')) != part.npos; part.remove_prefix(end + 1)) {
      rest_.append(part.substr(0, end));
      if (!rest_.empty()) on_line_(rest_);
      rest_.clear();
    }
    rest_.append(part);
  }
  void end() {
    if (!rest_.empty()) on_line_(rest_);
  }

 private:
  const std::function<void(std::string_view)> on_line_;
  std::string rest_;
};

// Whether the server asks for another try, and when; nothing: it does not.
std::optional<Nanos> retry_after(const HttpResponse& answer) {
  const auto status = answer.result_int();
  if (status != 429 && status != 503) return std::nullopt;
  const auto field = answer.find("Retry-After");
  if (field == answer.end()) return std::nullopt;
  int seconds = 1;
  const std::string_view text(field->value().data(), field->value().size());
  std::from_chars(text.data(), text.data() + text.size(), seconds);
  return std::clamp<Nanos>(Seconds(seconds), Millis(100), kLongestPause);
}

Answer answer_of(const HttpResponse& response) {
  Answer a{.status = static_cast<int>(response.result_int())};
  a.body = json::parse(response.body(), nullptr, false);
  if (a.body.is_discarded()) a.body = response.body();
  return a;
}

}  // namespace

struct Client::State {
  State(asio::io_context& context, Config c, wire::TlsContext tls, const ClientLimits& l)
      : io(context),
        config(std::move(c)),
        limits(l),
        address{config.server, std::move(tls), config.shows.server_name},
        budget(l),
        token(config) {}

  HttpRequest request_of(const Call& call);
  asio::awaitable<error_code> attempt(const HttpRequest& request, HttpResponse& response);
  asio::awaitable<void> pause(std::chrono::nanoseconds duration);
  Error error_of(const error_code& fault) const;

  asio::io_context& io;
  const Config config;
  const ClientLimits limits;
  const wire::HttpServerAddress address;
  Budget budget;
  Token token;
  std::vector<std::unique_ptr<HttpConnection>> kept;
  std::atomic<uint64_t> calls = 0;
};

HttpRequest Client::State::request_of(const Call& call) {
  HttpRequest request{call.method, call.target, 11};
  request.set("Host", config.server.host);
  request.set("Accept", kJson);
  request.set("User-Agent", "sluice");
  if (const std::string& bearer = token.text(); !bearer.empty())
    request.set("Authorization", "Bearer " + bearer);
  if (!call.body.is_null()) {
    request.set("Content-Type", call.content_type);
    // Texts of programs may be cut within a character: that one is replaced.
    request.body() = call.body.dump(-1, ' ', false, json::error_handler_t::replace);
  }
  request.prepare_payload();
  return request;
}

// A kept connection may have been closed meanwhile: then a fresh one is tried. A request that
// changes something may then be sent twice, as the API's preconditions allow.
asio::awaitable<error_code> Client::State::attempt(const HttpRequest& request,
                                                   HttpResponse& response) {
  for (;;) {
    const bool fresh = kept.empty();
    std::unique_ptr<HttpConnection> connection;
    error_code fault;
    if (fresh) {
      connection = std::make_unique<HttpConnection>(io, address);
      fault = co_await connection->connect(limits.timeout);
    } else {
      connection = std::move(kept.back());
      kept.pop_back();
    }
    if (!fault) fault = co_await connection->exchange(request, response, limits.timeout);
    if (!fault && response.keep_alive() && kept.size() < kKept)
      kept.push_back(std::move(connection));
    if (!fault || fresh || fault == wire::beast::error::timeout) co_return fault;
  }
}

asio::awaitable<void> Client::State::pause(std::chrono::nanoseconds duration) {
  asio::steady_timer timer(io, duration);
  (void)co_await timer.async_wait(kAwait);
}

Error Client::State::error_of(const error_code& fault) const {
  const bool late = fault == wire::beast::error::timeout;
  return {late ? ErrorKind::kTimeout : ErrorKind::kUnavailable,
          "the API server (" + wire::to_string(config.server) + "): " + fault.message()};
}

Client::Client(std::unique_ptr<State> state) : state_(std::move(state)) {}
Client::~Client() = default;

Result<std::unique_ptr<Client>> Client::make(asio::io_context& io, Config config,
                                             ClientLimits limits) {
  wire::TlsContext tls;
  if (config.tls) {
    SLUICE_ASSIGN(context, wire::client_context(config.shows));
    tls = std::move(context);
  }
  return std::unique_ptr<Client>(
      new Client(std::make_unique<State>(io, std::move(config), std::move(tls), limits)));
}

asio::awaitable<Result<Answer>> Client::send(Call call) {
  State& s = *state_;
  for (int tried = 1;; ++tried) {
    if (const auto wait = s.budget.take(); wait > Nanos(0)) co_await s.pause(wait);
    ++s.calls;
    HttpResponse response;
    const error_code fault = co_await s.attempt(s.request_of(call), response);
    if (fault) co_return s.error_of(fault);
    const auto again = retry_after(response);
    if (!again || tried >= s.limits.tries) {
      Answer answer = answer_of(response);
      // Such as the page of a proxy in front of it.
      if (answer.status / 100 == 2 && !answer.body.is_object())
        co_return Error{ErrorKind::kUnavailable, call.target + ": the answer is no object"};
      co_return answer;
    }
    co_await s.pause(*again);
  }
}

asio::awaitable<Result<json>> Client::call(Call call) {
  const std::string what = std::string(to_string(call.method)) + " " + call.target;
  Result<Answer> answer = co_await send(std::move(call));
  if (!answer.ok()) co_return answer.error();
  if (answer->status / 100 == 2) co_return std::move(answer->body);
  co_return Error{error_kind(answer->status), what + ": " + message_of(answer->body)};
}

asio::awaitable<Result<int>> Client::stream(std::string target,
                                            std::function<void(std::string_view)> on_line) {
  State& s = *state_;
  ++s.calls;
  HttpConnection connection(s.io, s.address);
  error_code fault = co_await connection.connect(s.limits.timeout);
  if (fault) co_return s.error_of(fault);
  HttpResponse head;
  Lines lines(std::move(on_line));
  const HttpRequest request = s.request_of(Call(std::move(target)));
  fault = co_await connection.stream(
      request, head, [&](std::string_view part) { lines.add(part); }, kSilent);
  if (fault) co_return s.error_of(fault);
  lines.end();
  co_return static_cast<int>(head.result_int());
}

asio::io_context& Client::io() const {
  return state_->io;
}
const Config& Client::config() const {
  return state_->config;
}
uint64_t Client::calls() const {
  return state_->calls;
}

ErrorKind error_kind(int status) {
  return status == 422 ? ErrorKind::kInvalid : wire::error_kind(status);
}

std::string message_of(const json& body) {
  if (body.is_object() && body.contains("message") && body["message"].is_string())
    return body["message"].get<std::string>();
  return body.is_string() ? body.get<std::string>() : body.dump();
}

}  // namespace sluice::kube
