// Instances that are forks of a model's warm template (zygote_host.h). They speak wire/zygote.h on
// their control channel.
#pragma once

#include "node/data_paths.h"
#include "node/enforcer.h"
#include "node/launcher.h"
#include "node/ledger.h"
#include "node/zygote_host.h"

namespace sluice::node {

class ForkLauncher : public Launcher {
 public:
  ForkLauncher(asio::io_context& io, ZygoteHost& zygote, Enforcer& enforcer, const Ledger& ledger,
               DataPaths paths, Nanos ready_patience);

  // Binds the record's socket, opens its log and forks.
  // REQUIRES: the instance has one part
  asio::awaitable<Result<Newborn>> bear(const InstanceRecord& r, size_t part) override;
  // Hands it its pages.
  Result<void> go(const Infant& infant) override;
  asio::awaitable<Result<void>> wait_until_ready(const Infant& infant) override;

  // Returns the number of threads for a slice.
  uint32_t threads_of(const Instance& i) const;

 private:
  asio::io_context& io_;
  ZygoteHost& zygote_;
  Enforcer& enforcer_;
  const Ledger& ledger_;
  const DataPaths paths_;
  const Nanos ready_patience_;
};

}  // namespace sluice::node
