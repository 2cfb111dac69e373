// The API's requests beside the loop's ticks: a change is answered once its tick has begun it, a
// listing is made once a tick. A change waits for the store, for the files that its request names,
// and for that tick.
//
// One thread, the loop's; threads of its own read applied files and remove unused copies of models.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <optional>

#include "control/api/api.h"
#include "control/api/kept_answers.h"
#include "control/api/ticks.h"

namespace sluice::control {

class Serving {
 public:
  // The references outlive it; `io` does not run any more when it ends, and `models` outlives `io`:
  // unfinished requests release their holds of copies with it.
  Serving(boost::asio::io_context& io, Control& control, Cluster& cluster, Models& models);
  ~Serving();  // a running copy of a model ends after its next piece

  boost::asio::awaitable<void> run_ticks() { return ticks_.run(); }  // for ever

  // GET …?after=TURN&wait_ms=N waits for the loop's next tick. The effect of a change begins before
  // it is answered, so that an applied function can be called. Every answer names the last tick
  // before it.
  boost::asio::awaitable<wire::HttpResponse> answer(Api& api, wire::HttpRequest request);

 private:
  boost::asio::awaitable<wire::HttpResponse> apply(Api& api, const wire::HttpRequest& request);
  void sweep(std::optional<Result<Api::FunctionsRead>> applied = {});

  const Control& control_;
  Models& models_;
  KeptAnswers kept_;
  Ticks ticks_;
  boost::asio::thread_pool files_{2};  // reads function files and the files that they name
};

}  // namespace sluice::control
