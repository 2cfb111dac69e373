#include "control/peers/orders_wait.h"

#include <algorithm>
#include <utility>

namespace sluice::control {

Result<nlohmann::json> OrdersWait::ask(PeerCalls& peer, wire::http::verb verb,
                                       std::string_view target, nlohmann::json body) {
  const auto begin = PeerCalls::Clock::now();
  auto answer = peer.call(verb, target, std::move(body), begin + left_);
  left_ = std::max(left_ - Nanos(PeerCalls::Clock::now() - begin), Nanos(0));
  return answer;
}

}  // namespace sluice::control
