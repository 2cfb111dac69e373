// Other methods to hold a CUDA program to a share of the device, as far as they affect the figure:
// what each launch does before it goes to the driver. Both count blocks, not time. Rewritten from
// their descriptions; each belongs to one thread of one program.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "tests/emulator/machine.h"

namespace sluice::bench {

// Tokens are blocks of grids, and come at a fixed rate: the share of the device's measured rate per
// second (Dilu, TGS).
class BlockTokens {
 public:
  explicit BlockTokens(int percent);
  void take(unsigned blocks);

 private:
  double per_ns_, tokens_ = 0;
  int64_t filled_ns_;
};

// Tokens are blocks of grids. Every 120 ms the program gets as many as its own utilisation, in
// whole percents, says that it needs more or less of (HAMi-core). A program without tokens sleeps
// 10 ms at a time; a launch passes while any are left, however large it is.
class UtilisationFeedback {
 public:
  explicit UtilisationFeedback(int percent);
  void take(unsigned blocks);

 private:
  void watch();
  int utilisation();
  int64_t correction(int utilisation) const;

  const int percent_;
  std::unique_ptr<emulator::Machine> machine_;
  int64_t total_, share_ = 0;
  std::atomic<int64_t> tokens_;
  emulator::Ns busy_ = 0, looked_at_ = 0;
  std::thread watcher_;
};

}  // namespace sluice::bench
