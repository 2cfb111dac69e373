#include "arbiters/tokens.h"

#include <utility>

namespace sluice::policy {

bool TokenArbiter::begin_step(Time now) {
  accounts_.advance(now);
  return std::exchange(window_, accounts_.window_start()) != accounts_.window_start();
}

void TokenArbiter::give(Account& account, double share) {
  accounts_.set_limit(
      account,
      Nanos(static_cast<int64_t>(share * static_cast<double>(accounts_.config().window.count()))));
}

}  // namespace sluice::policy
