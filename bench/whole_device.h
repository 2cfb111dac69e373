// A device that is wholly this process's and its children's, in this process: an arbiter, its
// pages, and the socket at which their hook asks. For benchmarks of the cost of a permit that is
// always granted.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>

#include "bench/blind_meter.h"
#include "enforce/arbiter_host.h"
#include "enforce/permit_server.h"

namespace sluice::bench {

class WholeDevice {
 public:
  WholeDevice() : host_(clock_, {}) {
    host_.add_device(*policy::make_arbiter(policy::kDefaultArbiter, {}), {}, 0);
    const policy::ShareClient all{
        .id = 1, .sm = kWhole, .quota = {kWhole, kWhole}, .position = {{0}, {0}}};
    SLUICE_CHECK(host_.admit(0, all, std::make_unique<BlindMeter>()).ok(), "admit");
    auto server = node::PermitServer::start(
        {.path = path_}, clock_, [this](const node::Peer&, uint32_t) -> Result<node::Placement> {
          ++processes_;
          return node::Placement{&host_, {0, 1}};
        });
    SLUICE_CHECK(server.ok(), "permit server");
    server_ = std::move(*server);
    setenv("SLUICE_PERMIT_SOCKET", path_.c_str(), 1);
  }
  ~WholeDevice() { unlink(path_.c_str()); }

  // Resizes its part of the SMs (at first all). Returns when the pages show it.
  void resize(Share sm) {
    const policy::ShareClient part{.id = 1, .sm = sm, .quota = {kWhole, kWhole}, .position = {}};
    SLUICE_CHECK(host_.resize(0, part).ok(), "resize");
  }

  // Returns how many processes have fetched their pages so far.
  int processes() const { return processes_; }

 private:
  const std::string path_ = "/tmp/sluice-bench-device." + std::to_string(getpid());
  SteadyClock clock_;
  std::atomic<int> processes_ = 0;
  node::ArbiterHost host_;
  std::unique_ptr<node::PermitServer> server_;
};

}  // namespace sluice::bench
