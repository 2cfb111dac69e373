// Writes objects in the background, each as it should be by now: a later write of the same key
// takes the place of one that waits. A write that the API server does not answer, or asks to
// repeat, is tried again, ever less often; a refused one is reported and forgotten.
//
// put() is for any thread; run() belongs to the client's io_context.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "kube/client.h"

namespace sluice::control {

class ObjectWriter {
 public:
  // Of one that needs another try. kLast: after a pause of its own, so that it holds up no other.
  // kFirst: before all others, which rest on it; where permissions or definitions are missing, too.
  enum class Again { kLast, kFirst };

  // `may_write`: asked before each write; while it says no, writes wait. `on_refused`: with the
  // key, on the client's thread.
  ObjectWriter(kube::Client& client, std::function<bool()> may_write,
               std::function<void(const std::string& key, const Error&)> on_refused = {},
               Again again = Again::kLast);
  ObjectWriter(const ObjectWriter&) = delete;

  // `last`: after all that waits now, also where it takes another's place.
  void put(const std::string& key, kube::Call call, bool last = false);
  size_t waiting() const;

  // Writes one after the other, in the order of put(), forever. Several of them at once keep the
  // order of one key alone.
  boost::asio::awaitable<void> run();

 private:
  using Moment = boost::asio::steady_timer::time_point;
  enum class Outcome { kDone, kAgain, kNoAnswer };
  struct Waiting {
    kube::Call call;
    int tries = 0;
    Moment not_before{};
  };
  struct Write : Waiting {
    std::string key;
  };
  std::optional<Write> next(bool& any_later);
  void end(Write write, Outcome outcome, Nanos took);
  Outcome finish(const Write& write, const Result<kube::Answer>& answer);
  bool may_succeed_later(int status) const;
  void wake();

  kube::Client& client_;
  const std::function<bool()> may_write_;
  const std::function<void(const std::string&, const Error&)> on_refused_;
  const Again again_;
  boost::asio::steady_timer news_;

  mutable std::mutex mutex_;
  std::deque<std::string> order_;         // of keys that wait
  std::map<std::string, Waiting> calls_;  // of those
  std::set<std::string> under_way_;
};

}  // namespace sluice::control
