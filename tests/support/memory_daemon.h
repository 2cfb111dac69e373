// The part of a node daemon that lends a slice's memory, in the test's own process. Any process
// that asks at FOLDER/permit.sock is in the slice, which has the whole device in time. Not
// thread-safe, except for the broker.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "enforce/permit_server.h"
#include "gpu/meter_cuda.h"

namespace sluice {

class MemoryDaemon {
 public:
  explicit MemoryDaemon(const std::string& folder)
      : socket_(folder + "/permit.sock"), record_(folder + "/record") {}

  // Starts the next daemon. Without a limit the slice's memory is not counted.
  void start(Bytes limit, const std::shared_ptr<const node::DeviceAccount>& device = nullptr) {
    stop();
    broker_ = std::make_unique<node::MemoryBroker>(clock_, ++generation_,
                                                   *node::MemoryRecord::open(record_));
    host_ =
        std::make_unique<node::ArbiterHost>(clock_, node::HostConfig{.generation = generation_});
    host_->add_device(*policy::make_arbiter(policy::kDefaultArbiter, {}), {}, 0);
    const policy::ShareClient whole{.id = kSlice, .sm = kWhole, .quota = {kWhole, kWhole}};
    EXPECT_TRUE(
        host_->admit(0, whole, std::make_unique<node::CudaMeter>(nullptr, clock_.now())).ok());
    account_ = limit > 0 ? *broker_->open("slice", limit, device) : 0;
    auto server = node::PermitServer::start(
        {.path = socket_, .generation = generation_}, clock_,
        [this](const node::Peer&, uint32_t) -> Result<node::Placement> {
          return node::Placement{host_.get(), {0, kSlice}, account_};
        },
        broker_.get());
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }
  // Stops it without a farewell, as a kill does.
  void stop() {
    server_.reset();
    host_.reset();
    broker_.reset();
  }

  void set_limit(Bytes limit) { broker_->set_limit(account_, limit); }
  node::MemoryLedger::Account look() const { return broker_->look(account_); }
  const std::string& socket() const { return socket_; }

 private:
  static constexpr policy::ClientId kSlice = 1;

  const std::string socket_, record_;
  SteadyClock clock_;
  uint32_t generation_ = 0;
  node::MemoryAccount account_ = 0;
  std::unique_ptr<node::MemoryBroker> broker_;
  std::unique_ptr<node::ArbiterHost> host_;
  std::unique_ptr<node::PermitServer> server_;  // ends before both
};

}  // namespace sluice
