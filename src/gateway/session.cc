#include "gateway/session.h"

#include <arpa/inet.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <functional>
#include <utility>

#include "gateway/client.h"
#include "gateway/exchange.h"
#include "gateway/head.h"
#include "gateway/inferences.h"

namespace sluice::gateway {
namespace {

constexpr Nanos kDesertedCheck = Millis(100);

// "10.0.0.1"; empty for a client on this machine's file system.
std::string address_of(const Socket& socket) {
  error_code fault;
  const auto peer = socket.remote_endpoint(fault);
  char text[INET6_ADDRSTRLEN] = "";
  if (fault) return text;
  const sockaddr* at = peer.data();
  if (at->sa_family == AF_INET)
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at)->sin_addr, text, sizeof text);
  if (at->sa_family == AF_INET6)
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(at)->sin6_addr, text, sizeof text);
  return text;
}

// Without a word of them, an answer is one.
uint64_t inferences_said(const Head& answer) {
  uint64_t inferences = 1;
  if (const auto said = answer.find("Sluice-Inferences"))
    std::from_chars(said->data(), said->data() + said->size(), inferences);
  return inferences;
}

// A compressed body may have killed its instance by its inflated size, which the gateway does not
// know. It would kill the next one, too.
bool is_compressed(const Head& request) {
  const auto coding = request.find(http::field::content_encoding);
  return coding && !boost::beast::iequals(*coding, "identity");
}

class Session final : public Waiter, public Watch, public std::enable_shared_from_this<Session> {
 public:
  Session(Loop& loop, std::unique_ptr<Stream> stream, const SessionLimits& limits,
          const LocalAnswers& local)
      : loop_(loop),
        local_(local),
        limits_(limits),
        watch_(*this),
        client_(loop, std::move(stream), watch_, limits),
        exchange_(loop, watch_, limits),
        bell_(loop.io),
        address_(address_of(client_.socket())) {}

  Awaitable<void> run() {
    while (co_await next_request() && !loop_.stopping())
      if (client_.pipelines()) co_await loop_.wait_for_iteration(watch_, bell_);
    co_await client_.linger();
    error_code ignored;
    client_.socket().close(ignored);
  }

  void on_granted() override;
  uint64_t content() const override;
  void sweep(Time now) override;
  void close() override;

 private:
  void look_after_client();
  void wake();

  Awaitable<bool> next_request();
  Awaitable<bool> answer_locally(const LocalAnswer& answer);
  Awaitable<bool> answer_with_body();
  Awaitable<bool> refuse(const Dispatcher::Entry& entry);
  Awaitable<bool> serve_request();
  Awaitable<bool> ask_instances();
  Awaitable<bool> relay_answer();
  Awaitable<void> wait_for_grant();
  Forwarded forwarded();

  Awaitable<bool> outlive_client();
  Awaitable<bool> break_off();
  bool cut_off();
  Awaitable<bool> body_fault(Client::Body fault);
  Awaitable<bool> time_out();
  Awaitable<bool> give_way();
  Awaitable<bool> give_up(Outcome outcome, int status, std::string_view why);
  bool end(Outcome outcome, uint64_t inferences = 0);

  Loop& loop_;
  const LocalAnswers& local_;
  const SessionLimits& limits_;
  Watch& watch_;  // this session's own
  Client client_;
  Exchange exchange_;
  Timer bell_;  // never expires by itself: cancelled when anything happens
  std::string traceparent_;
  Time arrived_{}, timeout_at_{}, next_check_{};
  Nanos timeout_{0};  // its function's
  bool half_closed_ = false;
  bool token_is_ours_ = false;
  const std::string address_;  // the client's; empty: it has none
  std::string versions_;  // of the function, for an instance that gets a question about its model
  std::atomic<bool> granted_ = false, listening_ = false;  // listening: for the bell
};

// ---- called by other threads -------------------------------------------------------------------

// Under the dispatcher's mutex, perhaps on another loop's thread. Either this sees that the session
// listens, or the session sees the grant before it listens (both flags are sequentially
// consistent).
void Session::on_granted() {
  granted_ = true;
  if (listening_) asio::post(loop_.io, [self = shared_from_this()] { self->bell_.cancel(); });
}

// Of its id, its length, and where its body begins and ends: tensors of one model are alike in much
// else, and may be large.
uint64_t Session::content() const {
  constexpr size_t kEnd = 4096;
  const std::string_view body = client_.kept();
  const std::string_view last = body.substr(body.size() - std::min(body.size(), kEnd));
  const std::hash<std::string_view> hash;
  uint64_t all = hash(client_.head().find("X-Request-Id").value_or(""));
  for (const uint64_t part : {client_.body_bytes(), hash(body.substr(0, kEnd)), hash(last)})
    all = all * 0x9e3779b97f4a7c15 + part;
  return all;
}

void Session::sweep(Time now) {
  if (now >= watch_.deadline) expired = true;
  if (for_client && now >= next_check_) {
    next_check_ = now + kDesertedCheck;
    look_after_client();
  }
  if (expired || gone || (idle && loop_.stopping())) wake();
}

void Session::close() {
  gone = true;
  wake();
}

// A client that has closed its sending side may have left, or wait for its answer (RFC 9112 §9.6).
// Its request goes behind all others, and a probe distinguishes the two: TCP resets the connection
// of a client that has left, and the next check sees that.
void Session::look_after_client() {
  pollfd p{client_.socket().native_handle(), POLLRDHUP, 0};
  if (::poll(&p, 1, 0) <= 0) return;
  if ((p.revents & (POLLHUP | POLLERR)) != 0) {
    gone = true;
  } else if (!std::exchange(half_closed_, true)) {
    loop_.dispatcher.defer(*this);
    gone = !client_.probe();
  }
}

void Session::wake() {
  error_code ignored;
  client_.socket().cancel(ignored);
  exchange_.cancel();
  bell_.cancel();
}

// ---- one request, in steps ---------------------------------------------------------------------

Awaitable<bool> Session::next_request() {
  // 1. The head.
  watch_.begin();
  half_closed_ = false;
  const auto unread = co_await client_.read_request();
  if (unread && unread->status == 0) co_return false;
  if (unread) co_return co_await client_.send_error(unread->status, unread->why);
  arrived_ = loop_.now();

  // 2. The gateway's own, or a function's.
  const Head& head = client_.head();
  const std::string_view target = target_of(head).path;
  const bool reads_body = LocalAnswers::reads_body(target);
  std::optional<LocalAnswer> own;
  if (!reads_body) own = local_.answer(head.method(), target, arrived_);
  if (reads_body || own) {
    if (!LocalAnswers::is_public(target) && !loop_.dispatcher.admits(bearer(head))) {
      const Dispatcher::Entry denied{Dispatcher::Refusal::kDenied,
                                     "the platform's bearer token is wanted"};
      co_return co_await refuse(denied);
    }
    if (reads_body) co_return co_await answer_with_body();
    co_return co_await answer_locally(*own);
  }
  const auto program = function_path(target);
  const auto path = program ? ModelPath{.served = program->served} : model_path(target);
  if (!path || wants_upgrade(head) || head.verb == http::verb::connect) {
    const int status = path ? 501 : 404;
    co_await client_.drop_body();
    co_return co_await client_.send_error(status, path ? "no upgrades here" : "no such path");
  }

  // 3. Its function.
  granted_ = false;
  is_http = program.has_value();
  is_inference = is_http || path->rest == "infer";
  const auto entry = loop_.dispatcher.find(*this, path->served, path->revision, bearer(head));
  if (entry.refusal != Dispatcher::Refusal::kNone) co_return co_await refuse(entry);
  timeout_ = entry.timeout;
  timeout_at_ = arrived_ + timeout_;
  token_is_ours_ = entry.token_is_ours;
  versions_ = entry.versions;
  if (!is_http && path->rest == "stats") {
    end(Outcome::kOk);  // it needs no instance
    const auto own =
        local_.function_statistics(head.method(), path->served, path->revision, arrived_);
    co_return co_await answer_locally(own);
  }
  co_return co_await serve_request();
}

Awaitable<bool> Session::answer_locally(const LocalAnswer& answer) {
  co_await client_.drop_body();
  // No conditional temporary inside a co_await: GCC 12 copies its bytes into the frame.
  std::string extra;
  if (!answer.allow.empty()) extra = "Allow: " + answer.allow + "\r\n";
  co_return co_await client_.send_own({.status = answer.status,
                                       .body = answer.body,
                                       .content_type = answer.content_type,
                                       .extra = extra});
}

// A question whose details are in the body. All of the body is kept in memory, which bounds it.
Awaitable<bool> Session::answer_with_body() {
  using Body = Client::Body;
  const size_t most = std::min(limits_.body_bytes, BodyRooms::kSize);
  Body body = client_.longer_than(most) ? Body::kOver : Body::kWhole;
  if (body == Body::kWhole && client_.wants_continue() && !co_await client_.send_continue())
    co_return false;
  if (body == Body::kWhole && !client_.keep_what_is_here())
    body = co_await client_.keep_body(arrived_ + limits_.head);
  if (body == Body::kTooLarge && client_.kept().empty())
    co_return co_await give_up(Outcome::kInvalid, 503, "body: no memory is free to keep it");
  const std::string too_large =
      "body: larger than the " + std::to_string(most) + " bytes allowed here";
  if (body == Body::kTooLarge || body == Body::kOver)
    co_return co_await give_up(Outcome::kInvalid, 413, too_large);
  if (body != Body::kWhole) co_return co_await body_fault(body);
  const Head& head = client_.head();
  const auto own = local_.answer(head.method(), target_of(head).path, arrived_, client_.kept());
  co_return co_await answer_locally(*own);
}

Awaitable<bool> Session::refuse(const Dispatcher::Entry& entry) {
  using Refusal = Dispatcher::Refusal;
  int status = 404;  // kUnknown, kUnknownRevision
  std::string extra;
  if (entry.refusal == Refusal::kUnavailable) status = 503;
  if (entry.refusal == Refusal::kDenied) {
    status = 401;
    extra = "WWW-Authenticate: Bearer\r\n";
  }
  if (entry.refusal == Refusal::kFull || entry.refusal == Refusal::kLate) {
    status = 429;
    const Nanos wait = std::clamp<Nanos>(entry.retry_after, Seconds(1), Seconds(60));
    const int64_t whole_seconds = (wait.count() + 999'999'999) / 1'000'000'000;
    extra = "Retry-After: " + std::to_string(whole_seconds) + "\r\n";
  }
  co_await client_.drop_body();
  co_return co_await client_.send_error(status, entry.why, extra);
}

// From here on its function counts it; every way out passes end().
Awaitable<bool> Session::serve_request() {
  // 4. Its body, or the beginning of a large one: a slow client's missing bytes hold neither a
  //    place in the queue nor an instance.
  if (client_.longer_than(limits_.body_bytes)) co_return co_await body_fault(Client::Body::kOver);
  if (client_.wants_continue()) {
    streams = client_.longer_than(BodyRooms::kSize);
    const auto asked = loop_.dispatcher.enter(*this, arrived_, loop_.now(), true);
    if (asked.refusal != Dispatcher::Refusal::kNone) co_return co_await refuse(asked);
    if (!co_await client_.send_continue()) co_return end(Outcome::kGone);
  }
  Client::Body body = Client::Body::kWhole;
  if (!client_.keep_what_is_here()) body = co_await client_.keep_body(timeout_at_);
  if (body != Client::Body::kWhole && body != Client::Body::kTooLarge)
    co_return co_await body_fault(body);
  // 5. A place in the queue.
  streams = body == Client::Body::kTooLarge;
  body_bytes = client_.body_bytes();
  if (is_inference) inferences = inferences_asked(client_.head(), client_.kept(), body_bytes);
  const auto entry = loop_.dispatcher.enter(*this, arrived_, loop_.now());
  if (entry.refusal != Dispatcher::Refusal::kNone) co_return co_await refuse(entry);
  watch_.for_client = true;
  co_return co_await ask_instances();
}

// 6. and 7. An instance, and the exchange with it; once more if the instance dies before it
//    answers.
Awaitable<bool> Session::ask_instances() {
  for (bool retried = false;;) {
    watch_.deadline = timeout_at_;
    if (!granted_) co_await wait_for_grant();
    if (watch_.gone) co_return end(Outcome::kGone);
    if (watch_.expired) co_return co_await time_out();
    if (displaced()) co_return co_await give_way();
    if (!granted()) co_return co_await give_up(Outcome::kFailed, 503, turned_away());
    const Exchange::Step step = co_await exchange_.ask(*this, client_, forwarded(), timeout_at_);
    if (step == Exchange::Step::kAnswers) co_return co_await relay_answer();
    if (step == Exchange::Step::kLeft) co_return co_await outlive_client();
    exchange_.abandon();
    if (step == Exchange::Step::kNotSent) co_return co_await body_fault(client_.body_fault());
    if (watch_.gone) co_return end(Outcome::kGone);
    if (watch_.expired) co_return co_await time_out();
    if (step == Exchange::Step::kGarbled)
      co_return co_await give_up(Outcome::kBroken, 502, "the instance's answer is broken");
    if (step == Exchange::Step::kDied && is_compressed(client_.head()))
      co_return co_await give_up(Outcome::kBroken, 502,
                                 "the instance died; a compressed body is not sent again");
    if (step == Exchange::Step::kDied && is_http && !is_idempotent(client_.head().verb))
      co_return co_await give_up(Outcome::kBroken, 502,
                                 "the instance died; such a request is not sent again");
    if (step == Exchange::Step::kDied && !client_.kept_whole())
      co_return co_await give_up(
          Outcome::kBroken, 502,
          "the instance died; a body this large is not kept to be sent again");
    if (step == Exchange::Step::kDied && retried)
      co_return co_await give_up(Outcome::kBroken, 502,
                                 "the instance died, and so did the next one");
    retried = retried || step == Exchange::Step::kDied;
    granted_ = false;
    loop_.dispatcher.again(*this, step == Exchange::Step::kRefused, loop_.now());
  }
}

Awaitable<void> Session::wait_for_grant() {
  listening_ = true;
  while (!granted_ && !watch_.expired && !watch_.gone) {
    bell_.expires_at(Timer::time_point::max());
    co_await bell_.async_wait(kAwait);
  }
  listening_ = false;
}

Forwarded Session::forwarded() {
  traceparent_.clear();
  if (!client_.head().find("traceparent")) {
    traceparent_ += "00-";
    loop_.put_id(traceparent_, 32);
    traceparent_ += '-';
    loop_.put_id(traceparent_, 16);
    traceparent_ += "-01";
  }
  Forwarded with{
      .request_id = client_.own_request_id(),
      .traceparent = traceparent_,
      .more = more(),
      .time_left = is_inference ? std::optional(Waiter::deadline() - loop_.now()) : std::nullopt,
      .versions = versions_,
      .body_limit = limits_.body_bytes,
      .token_is_ours = token_is_ours_,
      .framing = client_.framing()};
  if (!is_http) return with;
  const auto program = function_path(target_of(client_.head()).path);
  with.path = program->rest;
  with.prefix = program->prefix;
  with.client = address_;
  with.protocol = client_.is_tls() ? "https" : "http";
  with.once = !is_idempotent(client_.head().verb);
  return with;
}

// 8. The answer, as it arrives. The instance's credit is free again once its last byte is here: a
//    client that is slow to take the end of an answer holds no instance.
Awaitable<bool> Session::relay_answer() {
  const Answer& answer = exchange_.answer();
  const unsigned status = answer.head().status;
  const Outcome outcome = status < 400   ? Outcome::kOk
                          : status < 500 ? Outcome::kInvalid
                                         : Outcome::kFailed;
  const uint64_t inferences =
      is_inference && outcome == Outcome::kOk ? inferences_said(answer.head()) : 0;
  if (const auto report = answer.head().find(wire::kComputeHeader))
    compute = wire::compute_report_from(*report);
  if (exchange_.early()) client_.close_after();
  client_.begin_answer(answer);
  for (bool last = false; !last;) {
    Piece piece;
    if (client_.answer_has_body() && !answer.done()) piece = co_await exchange_.next_piece();
    if (piece.fault) co_return co_await break_off();
    if (is_http) watch_.deadline = loop_.now() + timeout_;  // a stream lasts as long as it goes on
    last = !client_.answer_has_body() || answer.done();
    if (last) {
      end(outcome, inferences);
      watch_.deadline = loop_.now() + limits_.stall;
    }
    if (co_await client_.send_piece(piece.data, last)) co_return cut_off();
  }
  exchange_.release();
  co_return client_.keep();
}

// The client has left, but its instance may be at work on the request. So the request keeps its
// credit until the instance is done with it, and its time-out: an instance that never is shows by
// that, as one does whose clients stay.
Awaitable<bool> Session::outlive_client() {
  client_.leave();
  watch_.begin();
  watch_.idle = true;
  watch_.deadline = timeout_at_;
  co_await exchange_.await_end(client_.head().verb == http::verb::head);
  co_return end(watch_.expired ? Outcome::kAbandoned : Outcome::kGone);
}

// The instance died within its answer.
Awaitable<bool> Session::break_off() {
  exchange_.abandon();
  if (watch_.gone) co_return end(Outcome::kGone);
  if (watch_.expired && !client_.answer_begun()) co_return co_await time_out();
  if (!client_.answer_begun())
    co_return co_await give_up(Outcome::kBroken, 502, "the instance died within its answer");
  co_return end(watch_.expired ? Outcome::kTimedOut : Outcome::kBroken);
}

// The client took no more: not the instance's fault.
bool Session::cut_off() {
  exchange_.abandon();
  return end(Outcome::kGone);
}

// ---- ends --------------------------------------------------------------------------------------

Awaitable<bool> Session::body_fault(Client::Body fault) {
  const std::string too_large = "body: larger than the " + std::to_string(limits_.body_bytes) +
                                " bytes allowed (sluice up --max-body)";
  switch (fault) {
    case Client::Body::kLate:
      co_return co_await give_up(Outcome::kInvalid, 408, "body: took too long");
    case Client::Body::kOver:
      co_return co_await give_up(Outcome::kInvalid, 413, too_large);
    case Client::Body::kBroken:
      co_return co_await give_up(Outcome::kInvalid, 400, "body: broken");
    default:
      co_return end(Outcome::kGone);
  }
}

Awaitable<bool> Session::time_out() {
  return give_up(Outcome::kTimedOut, 504, "timed out");
}

// Its place in the queue went to a request that can still be in time.
Awaitable<bool> Session::give_way() {
  end(Outcome::kShed);
  if (!client_.whole()) client_.close_after();
  co_return co_await client_.send_error(429, "shed: too late for its objective, and others wait",
                                        "Retry-After: 1\r\n");
}

Awaitable<bool> Session::give_up(Outcome outcome, int status, std::string_view why) {
  end(outcome);
  if (!client_.whole()) client_.close_after();
  return client_.send_error(status, why);
}

bool Session::end(Outcome outcome, uint64_t inferences) {
  watch_.for_client = false;
  loop_.dispatcher.finish(*this, outcome, inferences, loop_.now());
  return false;
}

}  // namespace

Awaitable<void> serve(Loop& loop, std::unique_ptr<Stream> stream, const SessionLimits& limits,
                      const LocalAnswers& local, uint64_t peer) {
  const auto session = std::make_shared<Session>(loop, std::move(stream), limits, local);
  session->peer = peer;
  loop.put(*session, Watch::List::kBusy);
  try {
    co_await session->run();
  } catch (const std::exception&) {
    // Memory ran out for this connection, or the library gave up on it: it ends, the others go on.
  }
  loop.dispatcher.finish(*session, Outcome::kFailed, 0, loop.now());  // no-op if it holds nothing
  loop.put(*session, Watch::List::kNone);
}

}  // namespace sluice::gateway
