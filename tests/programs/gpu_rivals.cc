#include "tests/programs/gpu_rivals.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "wire/permit.h"

namespace sluice::bench {
namespace {

// "Measured" with kernels of 200 µs that fill the 132 SMs: the device's rate, in blocks.
constexpr double kBlocksPerNs = 132.0 / 200'000;
constexpr double kMostNs = 5e6;  // of tokens saved

constexpr int kMultiprocessors = 132, kThreadsEach = 2048, kFactor = 32;
constexpr useconds_t kWatch = 120'000, kNap = 10'000;

int64_t mono() {
  return static_cast<int64_t>(sluice_clock(CLOCK_MONOTONIC));
}

}  // namespace

BlockTokens::BlockTokens(int percent) : per_ns_(kBlocksPerNs * percent / 100), filled_ns_(mono()) {}

void BlockTokens::take(unsigned blocks) {
  for (;;) {
    const int64_t now = mono();
    tokens_ =
        std::min(tokens_ + per_ns_ * static_cast<double>(now - filled_ns_), per_ns_ * kMostNs);
    filled_ns_ = now;
    if (tokens_ > 0) break;
    usleep(static_cast<useconds_t>(std::clamp(-tokens_ / per_ns_ / 1000, 100.0, 5000.0)));
  }
  tokens_ -= blocks;
}

UtilisationFeedback::UtilisationFeedback(int percent)
    : percent_(percent),
      machine_(emulator::Machine::open(std::getenv("SLUICE_EMULATED_GPU"), {})),
      total_(int64_t{kMultiprocessors} * kThreadsEach * kFactor),
      tokens_(0) {
  SLUICE_CHECK(machine_ != nullptr, "the emulated machine");
  watcher_ = std::thread([this] { watch(); });
}

void UtilisationFeedback::take(unsigned blocks) {
  while (tokens_.load() < 0) usleep(kNap);
  tokens_ -= blocks;
}

// Returns this process's, since the last call.
int UtilisationFeedback::utilisation() {
  const emulator::Machine::Lock state(*machine_);
  emulator::Ns busy = 0;
  for (const emulator::Process& p : state->processes)
    if (p.used && p.pid == getpid() && p.client[0] != emulator::DeviceModel::kNone)
      busy = state->devices[0].usage(p.client[0]).busy_ns;
  const emulator::Ns now = mono();
  const emulator::Ns passed = now - looked_at_, used = busy - busy_;
  looked_at_ = now;
  busy_ = busy;
  return static_cast<int>(used * 100 / std::max<emulator::Ns>(passed, 1));
}

// Grows with the square of the device's size, and again if the share is far off.
int64_t UtilisationFeedback::correction(int utilisation) const {
  const int64_t off = std::max(std::abs(percent_ - utilisation), 5);
  int64_t step = int64_t{kMultiprocessors} * kMultiprocessors * kThreadsEach * off / 2560;
  if (off > percent_ / 2) step = step * off * 2 / (percent_ + 1);
  return utilisation <= percent_ ? step : -step;
}

void UtilisationFeedback::watch() {
  utilisation();
  for (;;) {
    usleep(kWatch);
    share_ = std::clamp<int64_t>(share_ + correction(utilisation()), 0, total_);
    tokens_ = std::min(tokens_ + share_, total_);
  }
}

}  // namespace sluice::bench
