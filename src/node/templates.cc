#include "node/templates.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "process/process_identity.h"
#include "wire/http/await.h"
#include "wire/permit_steps.h"

namespace sluice::node {

using wire::kAwait;

Template::Template(asio::io_context& io, UidPool* pool, std::string its_key)
    : key(std::move(its_key)), loaded(io, asio::steady_timer::time_point::max()), uids_(pool) {}

Template::~Template() {
  end();
  if (taken_ != 0) uids_->give_back(taken_);
}

void Template::kill() const {
  if (pidfd.valid()) syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
}

void Template::end() {
  kill();
  pidfd.reset();
}

Result<void> Template::take_uid() {
  if (uids_ == nullptr || uid != 0) return {};
  SLUICE_ASSIGN(taken, uids_->take());
  uid = taken_ = taken;
  return {};
}

Templates::Templates(asio::io_context& io, UidPool* uids, size_t most, Nanos answer_patience)
    : io_(io), uids_(uids), most_(most), answer_patience_(answer_patience) {}

void Templates::forget(const std::shared_ptr<Template>& t) {
  if (const auto found = templates_.find(t->key); found != templates_.end() && found->second == t)
    templates_.erase(found);
}

void Templates::make_room() {
  while (templates_.size() >= most_) {
    const auto oldest = std::ranges::min_element(
        templates_, {}, [](const auto& entry) { return entry.second->last_use; });
    templates_.erase(oldest);  // its channel closes, and it ends
  }
}

asio::awaitable<Result<std::shared_ptr<Template>>> Templates::find(const std::string& key,
                                                                   const Load& load) {
  std::shared_ptr<Template> t;
  if (const auto found = templates_.find(key); found != templates_.end()) {
    t = found->second;
    t->last_use = ++uses_;
    if (!t->outcome) co_await t->loaded.async_wait(kAwait);  // another start loads it
  } else {
    make_room();
    t = templates_[key] = std::make_shared<Template>(io_, uids_, key);
    t->last_use = ++uses_;
    t->outcome = co_await load(t);
    // A template that died while it loaded may have been killed. A second death is the content's
    // fault, and so is every other failure of a started template.
    const auto failed = [&t] { return !t->outcome->ok() && t->pidfd.valid(); };
    if (failed() && t->outcome->error().kind == ErrorKind::kUnavailable)
      t->outcome = co_await load(t);
    if (failed()) t->outcome = Error{ErrorKind::kInvalid, t->outcome->error().message};
    t->loaded.cancel();
    if (!t->outcome->ok()) forget(t);
  }
  if (!t->outcome->ok()) co_return t->outcome->error();
  co_return t;
}

asio::awaitable<Result<Forked>> Templates::fork_from(std::shared_ptr<Template> t, const Ask& ask) {
  const Result<void> sent = ask(t->channel);
  SLUICE_STEP("instance: asked for");
  if (!sent.ok()) co_return sent.error();
  Result<wire::Packet> packet = co_await t->channel.receive(answer_patience_);
  const Result<wire::Started> started = answer_as<wire::Started>(packet, 1);
  if (!started.ok()) co_return started.error();
  if (!is_child(packet->fds[0].get(), started->pid, t->pid, t->uid != 0 ? t->uid : geteuid())) {
    t->end();
    t->channel = Channel();
    co_return Error{ErrorKind::kInvalid, "has answered with process " +
                                             std::to_string(started->pid) +
                                             ", which is no fork of it; it is ended"};
  }
  co_return Forked{{started->pid, std::move(packet->fds[0])}, t->uid};
}

asio::awaitable<Result<Forked>> Templates::fork_instance(std::string key, Load load, Ask ask) {
  // A template (or the zygote) may have died since its last use: then tries once more with a new
  // one.
  for (int attempt = 0;; ++attempt) {
    const Result<std::shared_ptr<Template>> found = co_await find(key, load);
    Error error;
    if (found.ok()) {
      Result<Forked> forked = co_await fork_from(*found, ask);
      if (forked.ok()) co_return std::move(*forked);
      error = within("template", forked.error());
      if (!(*found)->channel.open()) forget(*found);
    } else {
      error = found.error();
    }
    if (error.kind != ErrorKind::kUnavailable || attempt > 0) co_return error;
  }
}

}  // namespace sluice::node
