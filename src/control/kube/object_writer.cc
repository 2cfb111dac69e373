#include "control/kube/object_writer.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/log.h"
#include "wire/http/await.h"

namespace sluice::control {
namespace {

constexpr Nanos kFirstPause = Millis(100), kLongestPause = Seconds(5);

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

// Takes the first write whose key no other run() writes; the key is under way from then on.
std::optional<ObjectWriter::Write> ObjectWriter::next() {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(order_, [&](const std::string& k) { return !under_way_.contains(k); });
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
    bool done = false;
    if (may_write_()) {
      std::optional<Write> write = next();
      if (!write) {
        (void)co_await news_.async_wait(wire::kAwait);
        continue;
      }
      const Result<kube::Answer> answer = co_await client_.send(write->call);
      done = finish(*write, answer);
      end(std::move(*write), done);
    }
    wait = done ? kFirstPause : std::min(wait * 2, kLongestPause);
    if (done) continue;
    pause.expires_after(wait);
    (void)co_await pause.async_wait(wire::kAwait);
  }
}

// A write that needs another try waits, unless there is a later one of its key.
void ObjectWriter::end(Write write, bool done) {
  const std::lock_guard lock(mutex_);
  under_way_.erase(write.key);
  if (done) return;
  Waiting again{std::move(write.call), write.tries + 1};
  if (!calls_.try_emplace(write.key, std::move(again)).second) return;
  order_.insert(again_ == Again::kFirst ? order_.begin() : order_.end(), std::move(write.key));
}

bool ObjectWriter::may_succeed_later(int status) const {
  const bool always = status == 401 || status == 429 || status >= 500;
  return always || (again_ == Again::kFirst && (status == 403 || status == 404));
}

// Returns whether the write needs no other try.
bool ObjectWriter::finish(const Write& write, const Result<kube::Answer>& answer) {
  if (!answer.ok()) return false;
  if (answer->status / 100 == 2) return true;
  if (answer->status == 404 && write.call.method == kube::verb::delete_) return true;
  const Error error{kube::error_kind(answer->status), kube::message_of(answer->body)};
  if (may_succeed_later(answer->status)) {
    if (write.tries == 0) log::warn("{}: {}; it is tried again", write.key, error.message);
    return false;
  }
  if (on_refused_)
    on_refused_(write.key, error);
  else
    log::warn("{}: {}", write.key, error.message);
  return true;
}

}  // namespace sluice::control
