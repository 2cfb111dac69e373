// Serves a model until it is drained, for `sluice-runtime serve` and an instance. Everything runs
// on the thread that calls run(), except the model.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "runtime/model_server.h"
#include "runtime/runner.h"

namespace sluice::runtime {

class Serving {
 public:
  // `model` and `gate` outlive it.
  Serving(Model& model, Gate& gate, ServedModel served, Fd listening, int threads);

  boost::asio::io_context& io() { return io_; }
  void set_threads(int threads) { runner_.set_threads(threads); }

  // Accepts nothing more and answers what was accepted; then run() returns. SIGTERM and SIGINT do
  // this too. Idempotent.
  void drain();

  void run();

 private:
  boost::asio::io_context io_{1};
  SteadyClock clock_;
  Statistics statistics_;
  Runner runner_;
  ModelServer server_;
  boost::asio::signal_set signals_;
  bool draining_ = false;
};

}  // namespace sluice::runtime
