// A GPU of this process's in slices of equal parts of its time, each of which may borrow the rest:
// an arbiter, its pages, and the socket at which clients' hooks ask. For benchmarks of the cost of
// a permit that is granted at once. Not thread-safe.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "bench/blind_meter.h"
#include "enforce/arbiter_host.h"
#include "enforce/permit_server.h"
#include "gpu/meter_cuda.h"

namespace sluice::bench {

class SlicedDevice {
 public:
  // Its clients meter what they submit, as the hook does; or pass the gate alone.
  enum class Clients { kMeter, kPass };

  explicit SlicedDevice(int slices = 1, Clients clients = Clients::kPass)
      : slices_(slices), host_(clock_, {}) {
    const bool meter = clients == Clients::kMeter;
    host_.add_device(*policy::make_arbiter(meter ? "shares" : policy::kDefaultArbiter, {}), {}, 0);
    const int each = 1000 / slices;
    for (int i = 0; i < slices; ++i) {
      const policy::ShareClient share{.id = static_cast<policy::ClientId>(i),
                                      .sm = kWhole,
                                      .quota = {{each}, kWhole},
                                      .position = {{0}, {i * each}}};
      std::unique_ptr<node::Meter> made = std::make_unique<BlindMeter>();
      if (meter) made = std::make_unique<node::CudaMeter>(nullptr, clock_.now());
      SLUICE_CHECK(host_.admit(0, share, std::move(made)).ok(), "admit");
    }
  }
  ~SlicedDevice() {
    server_.reset();
    if (!path_.empty()) unlink(path_.c_str());
  }
  SlicedDevice(const SlicedDevice&) = delete;

  // Answers at this socket from now on, and names it to this process's hook and its children's. A
  // process is given the slice of its pid modulo their number.
  void serve(std::string path = "/tmp/sluice-bench-device." + std::to_string(getpid())) {
    path_ = std::move(path);
    auto server = node::PermitServer::start(
        {.path = path_}, clock_, [this](const node::Peer& peer, uint32_t) {
          ++processes_;
          const auto slice = static_cast<policy::ClientId>(peer.process.pid % slices_);
          return Result<node::Placement>(node::Placement{&host_, {0, slice}});
        });
    SLUICE_CHECK(server.ok(), "permit server");
    server_ = std::move(*server);
    setenv("SLUICE_PERMIT_SOCKET", path_.c_str(), 1);
  }

  // Attaches this process to a slice, without a socket.
  node::Attachment attach(policy::ClientId slice) {
    const node::ProcessIdentity self = *node::identity_of(getpid());
    auto attached = host_.attach({0, slice}, self, std::move(*node::open_process(self)));
    SLUICE_CHECK(attached.ok(), "attach");
    return std::move(*attached);
  }

  // Returns how many processes have asked at the socket so far.
  int processes() const { return processes_; }
  // Returns how many processes are attached now.
  int attached() {
    int processes = 0;
    for (int i = 0; i < slices_; ++i)
      processes += host_.state({0, static_cast<policy::ClientId>(i)})->processes;
    return processes;
  }

 private:
  const int slices_;
  std::string path_;
  SteadyClock clock_;
  std::atomic<int> processes_ = 0;
  node::ArbiterHost host_;
  std::unique_ptr<node::PermitServer> server_;
};

}  // namespace sluice::bench
