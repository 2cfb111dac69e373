#include "train/group.h"

#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

#include <exception>
#include <future>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sluice::train {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFormPatience(3000);
constexpr milliseconds kHaltPoll(2);
// A stopped worker, or a lost machine, sends nothing that would end an operation earlier.
constexpr milliseconds kStepPatience(60'000);

// Gloo's view of the controller's store. Its values are bytes, the messages are text.
class ControllerStore : public gloo::rendezvous::Store {
 public:
  ControllerStore(std::shared_ptr<Link> link, int64_t generation)
      : link_(std::move(link)), generation_(generation) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const char c : data) {
      text += kDigits[static_cast<unsigned char>(c) >> 4];
      text += kDigits[static_cast<unsigned char>(c) & 15];
    }
    if (const auto sent = link_->send(StoreSet{name(key), text}); !sent.ok())
      throw std::runtime_error(sent.error().message);
  }

  std::vector<char> get(const std::string& key) override {
    const Result<std::string> text = link_->wait_for(name(key), generation_);
    if (!text.ok()) throw std::runtime_error(text.error().message);
    const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::vector<char> data;
    for (size_t i = 0; i + 1 < text->size(); i += 2)
      data.push_back(static_cast<char>(digit((*text)[i]) << 4 | digit((*text)[i + 1])));
    return data;
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const milliseconds&) override { wait(keys); }

 private:
  std::string name(const std::string& key) const { return std::to_string(generation_) + "/" + key; }

  const std::shared_ptr<Link> link_;
  const int64_t generation_;
};

Result<std::shared_ptr<gloo::Context>> connect(const std::shared_ptr<Link>& link,
                                               const Form& form) {
  try {
    ControllerStore store(link, form.generation);
    gloo::transport::tcp::attr at("127.0.0.1");
    auto device = gloo::transport::tcp::CreateDevice(at);
    auto context = std::make_shared<gloo::rendezvous::Context>(form.rank, form.world);
    context->setTimeout(kFormPatience);
    context->connectFullMesh(store, device);
    context->setTimeout(kStepPatience);
    return std::shared_ptr<gloo::Context>(std::move(context));
  } catch (const std::exception& e) {
    return Error{ErrorKind::kUnavailable, e.what()};
  }
}

}  // namespace

// Gloo tries again for five times its patience if a rank has died meanwhile. So a thread connects,
// which is left behind as soon as the generation is known to end.
Result<std::unique_ptr<Group>> Group::form(std::shared_ptr<Link> link, const Form& form,
                                           const Clock& clock) {
  if (form.world == 1) return std::unique_ptr<Group>(new Group(form, nullptr, clock));
  std::promise<Result<std::shared_ptr<gloo::Context>>> promise;
  auto connected = promise.get_future();
  std::thread([link, form, p = std::move(promise)]() mutable {
    p.set_value(connect(link, form));
  }).detach();
  while (connected.wait_for(kHaltPoll) != std::future_status::ready)
    if (link->halted(form.generation))
      return Error{ErrorKind::kUnavailable, "ended while it formed"};
  SLUICE_ASSIGN(context, connected.get());
  return std::unique_ptr<Group>(new Group(form, std::move(context), clock));
}

Group::Group(const Form& form, std::shared_ptr<gloo::Context> context, const Clock& clock)
    : rank_(form.rank), world_(form.world), context_(std::move(context)), clock_(clock) {
  if (context_) thread_ = std::thread([this] { work(); });
}

Group::~Group() {
  if (!context_) return;
  {
    const std::lock_guard guard(lock_);
    ending_ = true;
    changed_.notify_all();
  }
  // Others may wait for this rank's part of an operation that it will not take: their connections
  // end.
  if (!queue_.empty() || !fault_.empty()) context_->closeConnections();
  thread_.join();
}

void Group::sum(float* numbers, size_t count) {
  if (!context_) return;
  enqueue([this, numbers, count, tag = ++tag_] {
    gloo::AllreduceOptions options(context_);
    options.setOutput(numbers, count);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    options.setTag(tag);
    gloo::allreduce(options);
  });
}

void Group::broadcast(char* bytes, size_t count) {
  if (!context_) return;
  enqueue([this, bytes, count, tag = ++tag_] {
    gloo::BroadcastOptions options(context_);
    options.setOutput(bytes, count);
    options.setRoot(0);
    options.setTag(tag);
    gloo::broadcast(options);
  });
}

void Group::enqueue(std::function<void()> operation) {
  const std::lock_guard guard(lock_);
  if (!fault_.empty()) return;
  queue_.push_back(std::move(operation));
  changed_.notify_all();
}

Result<void> Group::wait() {
  std::unique_lock guard(lock_);
  changed_.wait(guard, [&] { return queue_.empty() || !fault_.empty(); });
  if (!fault_.empty()) return Error{ErrorKind::kUnavailable, fault_};
  waited_for_ = std::exchange(seconds_, {});
  return {};
}

void Group::work() {
  std::unique_lock guard(lock_);
  for (;;) {
    changed_.wait(guard, [&] { return !queue_.empty() || ending_; });
    if (ending_) return;
    const std::function<void()> operation = queue_.front();
    guard.unlock();
    std::string fault;
    const Time begun = clock_.now();
    try {
      operation();
    } catch (const std::exception& e) {
      fault = e.what();
      if (fault.empty()) fault = "the group failed";
    }
    guard.lock();
    if (!fault.empty()) {
      fault_ = fault;
      queue_.clear();
    } else {
      queue_.pop_front();
      seconds_.push_back(seconds(clock_.now() - begun));
    }
    changed_.notify_all();
    if (!fault_.empty()) return;
  }
}

}  // namespace sluice::train
