#include "control/peers/peer_calls.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "wire/http/http_caller.h"

namespace sluice::control {

using nlohmann::json;

PeerAddress at_socket(const std::string& path, Nanos timeout) {
  return {"unix:" + path, timeout, [path] { return wire::HttpServerAddress{{.path = path}}; }};
}

struct PeerCalls::Call {
  wire::http::verb verb;
  std::string target;
  json body;
  std::optional<Result<json>> answer;
};

struct PeerCalls::State {
  State(asio::io_context& context, PeerAddress a, std::function<void()> q)
      : io(context), at(std::move(a)), on_quiet(std::move(q)) {}

  std::shared_ptr<Call> next();
  asio::awaitable<Result<json>> make(const Call& call);
  void finish(Call& call, Result<json> answer);

  asio::io_context& io;
  const PeerAddress at;
  const std::function<void()> on_quiet;
  std::unique_ptr<wire::HttpCaller> caller;  // the coroutine's

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<std::shared_ptr<Call>> waiting;
  std::shared_ptr<Call> poll;
  std::optional<Clock::time_point> busy_since;
  bool under_way = false;  // a call is running
  bool runs = false;       // the coroutine
  bool ending = false;
};

// Returns nullptr if none waits: the coroutine ends.
std::shared_ptr<PeerCalls::Call> PeerCalls::State::next() {
  const std::lock_guard lock(mutex);
  runs = under_way = !waiting.empty();
  if (!runs) return nullptr;
  std::shared_ptr<Call> call = std::move(waiting.front());
  waiting.pop_front();
  return call;
}

asio::awaitable<Result<json>> PeerCalls::State::make(const Call& call) {
  try {
    if (!caller) caller = std::make_unique<wire::HttpCaller>(io, at.server(), at.timeout);
    wire::HttpRequest request = wire::json_request(call.verb, call.target, call.body);
    const Result<wire::HttpResponse> response = co_await caller->send(std::move(request));
    if (response.ok()) co_return wire::json_of(*response);
    if (response.error().kind == ErrorKind::kUnavailable) caller.reset();
    co_return response.error();
  } catch (const std::exception& fault) {
    co_return Error{ErrorKind::kInternal, fault.what()};
  }
}

void PeerCalls::State::finish(Call& call, Result<json> answer) {
  {
    const std::lock_guard lock(mutex);
    call.answer = std::move(answer);
    under_way = false;
    changed.notify_all();
    if (!waiting.empty() || ending) return;
    busy_since.reset();
  }
  on_quiet();
}

asio::awaitable<void> PeerCalls::run(std::shared_ptr<State> s) {
  while (const std::shared_ptr<Call> call = s->next()) {
    Result<json> answer = co_await s->make(*call);
    s->finish(*call, std::move(answer));
  }
}

PeerCalls::PeerCalls(PeerThread& thread, PeerAddress at, std::function<void()> on_quiet)
    : thread_(thread),
      state_(std::make_shared<State>(thread.io(), std::move(at), std::move(on_quiet))) {}

// The connection is closed on its thread.
PeerCalls::~PeerCalls() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->waiting.clear();
  }
  asio::post(thread_.io(), [state = state_] {});
}

std::shared_ptr<PeerCalls::Call> PeerCalls::enqueue(wire::http::verb verb, std::string_view target,
                                                    json body) {
  State& s = *state_;
  s.waiting.push_back(
      std::make_shared<Call>(Call{verb, std::string(target), std::move(body), std::nullopt}));
  if (!s.busy_since) s.busy_since = Clock::now();
  if (!std::exchange(s.runs, true)) asio::co_spawn(s.io, run(state_), asio::detached);
  return s.waiting.back();
}

void PeerCalls::poll(std::string_view target) {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (s.busy_since || (s.poll && s.poll->answer)) return;
  s.poll = enqueue(wire::http::verb::get, target, nullptr);
}

std::optional<Result<json>> PeerCalls::take_poll() {
  State& s = *state_;
  const std::lock_guard lock(s.mutex);
  if (!s.poll || !s.poll->answer) return std::nullopt;
  auto answer = std::move(s.poll->answer);
  s.poll.reset();
  return answer;
}

Result<json> PeerCalls::call(wire::http::verb verb, std::string_view target, json body,
                             Clock::time_point until) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  const std::shared_ptr<Call> call = enqueue(verb, target, std::move(body));
  if (s.changed.wait_until(lock, until, [&] { return call->answer.has_value(); }))
    return std::move(*call->answer);
  if (std::erase(s.waiting, call) > 0) {
    if (!s.under_way && s.waiting.empty()) s.busy_since.reset();
    return Error{ErrorKind::kUnavailable, s.at.name + ": does not answer"};
  }
  return Error{ErrorKind::kTimeout,
               s.at.name + ": has not answered in time; what was asked for may still be done"};
}

std::optional<PeerCalls::Clock::time_point> PeerCalls::busy_since() const {
  const std::lock_guard lock(state_->mutex);
  return state_->busy_since;
}

bool PeerCalls::busy_within(Nanos patience) const {
  const auto since = busy_since();
  return since && Clock::now() - *since < patience;
}

}  // namespace sluice::control
