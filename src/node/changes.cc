#include "node/changes.h"

#include "wire/http/await.h"

namespace sluice::node {

void Changes::notify() {
  ++version_;
  for (asio::steady_timer* waiter : waiting_) waiter->cancel();
}

asio::awaitable<void> Changes::after(uint64_t version, Nanos patience) {
  if (version_ > version) co_return;
  asio::steady_timer timer(io_, patience);
  waiting_.insert(&timer);
  co_await timer.async_wait(wire::kAwait);
  waiting_.erase(&timer);
}

}  // namespace sluice::node
