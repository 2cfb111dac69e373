// The part of a node daemon that lends a slice's memory, in the test's own process: the slice of
// whoever asks at FOLDER/permit.sock. Of time it has the whole device. Not thread-safe, but for
// what the desk is.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "node/meter_cuda.h"
#include "node/permit_server.h"

namespace sluice {

class MemoryDaemon {
 public:
  explicit MemoryDaemon(const std::string& folder)
      : socket_(folder + "/permit.sock"), record_(folder + "/record") {}

  // The next one. No limit: the slice's memory is not counted.
  void start(Bytes limit, const std::shared_ptr<const node::DeviceAccount>& device = nullptr) {
    stop();
    desk_ = std::make_unique<node::MemoryDesk>(clock_, ++generation_,
                                               *node::MemoryRecord::open(record_));
    host_ =
        std::make_unique<node::ArbiterHost>(clock_, node::HostConfig{.generation = generation_});
    host_->add_device(*policy::make_arbiter(policy::kDefaultArbiter, {}), {}, 0);
    const policy::ShareClient whole{.id = kSlice, .sm = kWhole, .quota = {kWhole, kWhole}};
    EXPECT_TRUE(
        host_->admit(0, whole, std::make_unique<node::CudaMeter>(nullptr, clock_.now())).ok());
    account_ = limit > 0 ? *desk_->open("slice", limit, device) : 0;
    auto server = node::PermitServer::start(
        {.path = socket_, .generation = generation_}, clock_,
        [this](const node::Peer&, uint32_t) -> Result<node::Placement> {
          return node::Placement{host_.get(), {0, kSlice}, account_};
        },
        desk_.get());
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  // As a kill does: without a farewell.
  void stop() {
    server_.reset();
    host_.reset();
    desk_.reset();
  }

  void set_limit(Bytes limit) { desk_->set_limit(account_, limit); }
  node::MemoryLedger::Account look() const { return desk_->look(account_); }
  const std::string& socket() const { return socket_; }

 private:
  static constexpr policy::ClientId kSlice = 1;

  const std::string socket_, record_;
  SteadyClock clock_;
  uint32_t generation_ = 0;
  node::MemoryAccount account_ = 0;
  std::unique_ptr<node::MemoryDesk> desk_;
  std::unique_ptr<node::ArbiterHost> host_;
  std::unique_ptr<node::PermitServer> server_;  // ends before both
};

}  // namespace sluice
