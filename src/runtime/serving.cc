#include "runtime/serving.h"

#include <csignal>

namespace sluice::runtime {

Serving::Serving(Model& model, Gate& gate, ServedModel served, Fd listening, int threads)
    : runner_(model, gate, {served.batch, served.batching.max_delay}, threads, clock_, statistics_),
      server_(io_, std::move(listening), std::move(served), runner_, statistics_),
      signals_(io_, SIGTERM, SIGINT) {
  signals_.async_wait([this](auto fault, int) {
    if (!fault) drain();
  });
}

void Serving::drain() {
  if (std::exchange(draining_, true)) return;
  server_.drain([this] { io_.stop(); });
}

void Serving::run() {
  io_.run();
}

}  // namespace sluice::runtime
