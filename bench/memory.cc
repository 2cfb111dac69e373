// memory: the cost that the library in the driver's place adds to an allocation and its free:
// within the process's headroom, and when it has to ask the daemon. The reference is a ledger that
// is asked for each. The driver under it allocates nothing.
#include <unistd.h>

#include <string>

#include "bench/hooked_driver.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "enforce/permit_server.h"

namespace sluice::bench {
namespace {

constexpr int kRounds = 200;
constexpr Bytes kLimit = Bytes{8} << 30;

// The node's side: a slice of memory, and the socket where this process's hook finds it.
class Ledger {
 public:
  Ledger() : account_(*broker_.open("bench", kLimit, nullptr)) {
    auto server = node::PermitServer::start(
        {.path = path_}, clock_,
        [this](const node::Peer&, uint32_t) -> Result<node::Placement> {
          return node::Placement{.memory = account_};
        },
        &broker_);
    SLUICE_CHECK(server.ok(), "permit server");
    server_ = std::move(*server);
    setenv("SLUICE_PERMIT_SOCKET", path_.c_str(), 1);
  }
  ~Ledger() {
    unlink(path_.c_str());
    unlink((path_ + ".record").c_str());
  }

  Bytes held() const { return broker_.look(account_).held; }

 private:
  const std::string path_ = "/tmp/sluice-bench-memory." + std::to_string(getpid());
  SteadyClock clock_;
  node::MemoryBroker broker_{clock_, 1, *node::MemoryRecord::open(path_ + ".record")};
  node::MemoryAccount account_;
  std::unique_ptr<node::PermitServer> server_;
};

struct Driver {
  explicit Driver(void* library)
      : allocate(function<decltype(&cuMemAlloc_v2)>(library, "cuMemAlloc_v2")),
        free(function<decltype(&cuMemFree_v2)>(library, "cuMemFree_v2")) {}

  // Returns the ns for each allocation with its free.
  double time(int pairs, size_t bytes) const {
    return ns_each(pairs, [&] {
      CUdeviceptr pointer = 0;
      SLUICE_CHECK(allocate(&pointer, bytes) == CUDA_SUCCESS, "an allocation failed");
      SLUICE_CHECK(free(pointer) == CUDA_SUCCESS, "a free failed");
    });
  }

  decltype(&cuMemAlloc_v2) allocate;
  decltype(&cuMemFree_v2) free;
};

}  // namespace
}  // namespace sluice::bench

int main(int argc, char** argv) {
  using namespace sluice::bench;
  constexpr size_t kSmall = size_t{2} << 20, kLarge = size_t{1} << 30;
  Report report("memory", argc, argv);
  const Ledger broker;
  const HookedDriver cuda;
  const Driver direct(cuda.driver), hooked(cuda.hook);
  CUdeviceptr kept = 0;  // leaves headroom
  if (hooked.allocate(&kept, kSmall) != CUDA_SUCCESS) report.fail("the first allocation failed");

  std::vector<double> within, asking;
  for (int round = 0; round < kRounds; ++round) {
    const double bare = direct.time(1000, kSmall);
    within.push_back(hooked.time(1000, kSmall) - bare);
    asking.push_back(hooked.time(10, kLarge) - bare);  // beyond any headroom: asked, and freed
  }
  if (broker.held() == 0) report.fail("the hook did not ask the daemon");
  CUdeviceptr beyond = 0;
  if (hooked.allocate(&beyond, kLimit) != CUDA_ERROR_OUT_OF_MEMORY)
    report.fail("more than the slice has was allocated");

  const Samples w = summarise(within), a = summarise(asking);
  report.add(Row("added per allocation and free, within headroom, p50", w.p50, "ns")
                 .beside("asking the daemon each time", a.p50)
                 .of(w)
                 .at_most(100));
  report.add(
      Row("added per allocation and free, asking the daemon, p50", a.p50 / 1000, "us").of(a));
  return report.finish();
}
