#include "control/local/peer_calls.h"

namespace sluice::control {

using nlohmann::json;

PeerCalls::PeerCalls(std::string socket, Nanos timeout, std::function<void()> on_quiet)
    : socket_(std::move(socket)),
      on_quiet_(std::move(on_quiet)),
      client_({.path = socket_}, timeout),
      thread_([this] { run(); }) {}

PeerCalls::~PeerCalls() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void PeerCalls::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const std::shared_ptr<Call> call = std::move(waiting_.front());
    waiting_.pop_front();
    under_way_ = true;
    lock.unlock();
    std::optional<Result<json>> answer;
    try {
      answer = client_.json(call->verb, call->target, call->body);
    } catch (const std::exception& fault) {
      answer = Error{ErrorKind::kInternal, fault.what()};
    }
    lock.lock();
    call->answer = std::move(answer);
    under_way_ = false;
    changed_.notify_all();
    if (!waiting_.empty()) continue;
    busy_since_.reset();
    lock.unlock();
    on_quiet_();
    lock.lock();
  }
}

std::shared_ptr<PeerCalls::Call> PeerCalls::enqueue(Call call) {
  waiting_.push_back(std::make_shared<Call>(std::move(call)));
  if (!busy_since_) busy_since_ = Clock::now();
  changed_.notify_all();
  return waiting_.back();
}

void PeerCalls::poll(std::string_view target) {
  const std::lock_guard lock(mutex_);
  if (busy_since_ || (poll_ && poll_->answer)) return;
  poll_ = enqueue({.verb = wire::http::verb::get, .target = std::string(target)});
}

std::optional<Result<json>> PeerCalls::take_poll() {
  const std::lock_guard lock(mutex_);
  if (!poll_ || !poll_->answer) return std::nullopt;
  auto answer = std::move(poll_->answer);
  poll_.reset();
  return answer;
}

Result<json> PeerCalls::call(wire::http::verb verb, std::string_view target, json body,
                             Clock::time_point until) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Call> call =
      enqueue({.verb = verb, .target = std::string(target), .body = std::move(body)});
  if (changed_.wait_until(lock, until, [&] { return call->answer.has_value(); }))
    return std::move(*call->answer);
  if (std::erase(waiting_, call) > 0) {
    if (!under_way_ && waiting_.empty()) busy_since_.reset();
    return Error{ErrorKind::kUnavailable, "unix:" + socket_ + ": does not answer"};
  }
  return Error{ErrorKind::kTimeout, "unix:" + socket_ +
                                        ": has not answered in time; what was asked for may "
                                        "still be done"};
}

std::optional<PeerCalls::Clock::time_point> PeerCalls::busy_since() const {
  const std::lock_guard lock(mutex_);
  return busy_since_;
}

}  // namespace sluice::control
