#include "control/kube/object_writer.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "wire/http/await.h"

namespace sluice::control {
namespace {

constexpr Nanos kFirstPause = Millis(100), kLongestPause = Seconds(5);
constexpr Nanos kLongestPauseOfOne = Seconds(10);

}  // namespace

ObjectWriter::ObjectWriter(kube::Client& client, std::function<bool()> may_write,
                           std::function<void(const std::string&, const Error&)> on_refused,
                           Again again)
    : client_(client),
      may_write_(std::move(may_write)),
      on_refused_(std::move(on_refused)),
      again_(again),
      news_(client.io(), Nanos::max()) {}

void ObjectWriter::put(const std::string& key, kube::Call call, bool last) {
  {
    const std::lock_guard lock(mutex_);
    if (last && calls_.erase(key) > 0) std::erase(order_, key);
    if (!calls_.contains(key)) order_.push_back(key);
    calls_.insert_or_assign(key, Waiting{std::move(call)});
  }
  boost::asio::post(client_.io(), [this] { wake(); });
}

size_t ObjectWriter::waiting() const {
  const std::lock_guard lock(mutex_);
  return calls_.size() + under_way_.size();
}

void ObjectWriter::wake() {
  news_.cancel();
}

// Takes the first write that is due and whose key no other run() writes; the key is under way from
// then on. `any_later`: some wait for their next try.
std::optional<ObjectWriter::Write> ObjectWriter::next(bool& any_later) {
  const std::lock_guard lock(mutex_);
  const Moment now = Moment::clock::now();
  any_later = false;
  const auto found = std::ranges::find_if(order_, [&](const std::string& k) {
    if (under_way_.contains(k)) return false;
    const bool due = calls_.at(k).not_before <= now;
    any_later |= !due;
    return due;
  });
  if (found == order_.end()) return std::nullopt;
  std::string key = *found;
  order_.erase(found);
  Waiting waiting = std::move(calls_.at(key));
  calls_.erase(key);
  under_way_.insert(key);
  return Write{std::move(waiting), std::move(key)};
}

boost::asio::awaitable<void> ObjectWriter::run() {
  boost::asio::steady_timer pause(client_.io());
  Nanos wait = kFirstPause;
  for (;;) {
    bool goes_on = false;
    if (may_write_()) {
      bool any_later = false;
      std::optional<Write> write = next(any_later);
      if (!write && !any_later) {
        (void)co_await news_.async_wait(wire::kAwait);
        continue;
      }
      if (write) {
        const Moment begun = Moment::clock::now();
        const Result<kube::Answer> answer = co_await client_.send(write->call);
        const Outcome outcome = finish(*write, answer);
        goes_on =
            outcome == Outcome::kDone || (outcome == Outcome::kAgain && again_ == Again::kLast);
        end(std::move(*write), outcome, Moment::clock::now() - begun);
      } else {
        wait = kFirstPause / 2;  // doubled below
      }
    }
    wait = goes_on ? kFirstPause : std::min(wait * 2, kLongestPause);
    if (goes_on) continue;
    pause.expires_after(wait);
    (void)co_await pause.async_wait(wire::kAwait);
  }
}

// A write that needs another try waits, unless there is a later one of its key. One that takes the
// server long, as with a webhook that does not answer, waits longer: so that such ones leave most
// of the writers' time to others.
void ObjectWriter::end(Write write, Outcome outcome, Nanos took) {
  const std::lock_guard lock(mutex_);
  under_way_.erase(write.key);
  if (outcome == Outcome::kDone) return;
  Waiting again{std::move(write.call), write.tries + 1};
  if (again_ == Again::kLast) {
    const Nanos later =
        std::min(kFirstPause * (1 << std::min(write.tries, 10)), kLongestPauseOfOne);
    again.not_before =
        Moment::clock::now() + (outcome == Outcome::kAgain ? std::max(later, 4 * took) : later);
  }
  if (!calls_.try_emplace(write.key, std::move(again)).second) return;
  order_.insert(again_ == Again::kFirst ? order_.begin() : order_.end(), std::move(write.key));
}

bool ObjectWriter::may_succeed_later(int status) const {
  const bool always = status == 401 || status == 429 || status >= 500;
  return always || (again_ == Again::kFirst && (status == 403 || status == 404));
}

ObjectWriter::Outcome ObjectWriter::finish(const Write& write, const Result<kube::Answer>& answer) {
  if (!answer.ok()) return Outcome::kNoAnswer;
  if (answer->status / 100 == 2) return Outcome::kDone;
  if (answer->status == 404 && write.call.method == kube::verb::delete_) return Outcome::kDone;
  const Error error{kube::error_kind(answer->status), kube::message_of(answer->body)};
  if (may_succeed_later(answer->status)) {
    if (write.tries == 0) log::warn("{}: {}; it is tried again", write.key, error.message);
    return Outcome::kAgain;
  }
  if (on_refused_)
    on_refused_(write.key, error);
  else
    log::warn("{}: {}", write.key, error.message);
  return Outcome::kDone;
}

}  // namespace sluice::control
