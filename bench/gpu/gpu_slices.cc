// gpu_slices: one GPU's part of the node daemon for programs that a script starts (slices.py): its
// arbiter, the ledger of its memory, and for each slice a socket of its own, which identifies its
// programs. Can be built without CUDA.
//
//   gpu_slices FOLDER [--arbiter NAME] [--nvml LIBRARY]
//
// It keeps the first GPU that NVML finds. On standard input, a line each, answered by a line:
//
//   slice N REQUEST LIMIT SM MIB  makes slice N, or changes it; shares in permille, MIB 0: memory
//                                 is not counted. Its socket is FOLDER/N.sock. Slices of all SMs
//                                 lie behind each other in time, others beside each other
//   state N                       "ok": busy ns, attached processes, bytes held, holders
//   gpu                           "ok": its UUID, memory in bytes
//
// The answer is "ok …", or "error …" with the reason. It ends with its input.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>

#include "base/check.h"
#include "enforce/permit_server.h"
#include "gpu/gpu_watch.h"
#include "gpu/meter_cuda.h"

namespace sluice::bench {
namespace {

constexpr Bytes kMebibyte = Bytes{1} << 20;

template <typename T>
T need(Result<T> result) {
  if (result.ok()) return std::move(*result);
  std::fprintf(stderr, "gpu_slices: %s\n", result.error().message.c_str());
  std::exit(1);
}

struct Options {
  std::string folder, arbiter{policy::default_arbiter(DeviceKind::kCuda)},
      nvml = "libnvidia-ml.so.1";
};

class GpuSlices {
 public:
  explicit GpuSlices(const Options& options)
      : folder_(options.folder),
        watch_(node::GpuWatch::start(options.nvml)),
        host_(clock_, {}),
        broker_(clock_, 1, need(node::MemoryRecord::open(folder_ + "/memory"))) {
    if (watch_->gpus().empty()) need(Result<int>(Error{ErrorKind::kNotFound, watch_->describe()}));
    const policy::ArbiterConfig config{
        .window = policy::window_of(options.arbiter),
        .side_by_side = std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr};
    host_.add_device(need(policy::make_arbiter(options.arbiter, config)), config, 0);
    const auto lookup = [this](const node::Peer& peer, uint32_t) { return place_of(peer.slice); };
    server_ = need(
        node::PermitServer::start({.path = folder_ + "/permit.sock"}, clock_, lookup, &broker_));
  }

  std::string answer(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "gpu") return "ok " + gpu().uuid + " " + std::to_string(gpu().memory);
    policy::ClientId id = 0;
    if (!(words >> id)) return "error no such command: " + line;
    if (what == "state") return state(id);
    int request = 0, limit = 0, sm = 0;
    Bytes mib = 0;
    if (what != "slice" || !(words >> request >> limit >> sm >> mib))
      return "error no such command: " + line;
    int slo_ms = 0;
    words >> slo_ms;  // none: it has no objective
    const Result<void> put = this->put({.id = id,
                                        .sm = {sm},
                                        .quota = {{request}, {limit}},
                                        .has_slo = slo_ms > 0,
                                        .slo = Millis(std::max(slo_ms, 0))},
                                       mib * kMebibyte);
    return put.ok() ? "ok" : "error " + put.error().message;
  }

 private:
  struct Slice {
    policy::ShareClient share;
    node::MemoryAccount memory = 0;
  };

  const Device& gpu() const { return watch_->gpus()[0]; }

  Result<void> put(policy::ShareClient share, Bytes memory) {
    const auto at = slices_.find(share.id);
    if (at == slices_.end()) return make(share, memory);
    share.position = at->second.share.position;
    if (at->second.memory != 0) broker_.set_limit(at->second.memory, memory);
    at->second.share = share;
    return host_.change_share(0, share);
  }

  Result<void> make(policy::ShareClient share, Bytes memory) {
    share.position = behind_others(share);
    const auto account = watch_->account(gpu().uuid);
    const std::string name = std::to_string(share.id);
    Slice slice{.share = share};
    if (memory > 0) {
      const auto opened = broker_.open(name, memory, account);
      if (!opened.ok()) return opened.error();
      slice.memory = *opened;
    }
    const Result<void> admitted =
        host_.admit(0, share, std::make_unique<node::CudaMeter>(account, clock_.now()));
    if (!admitted.ok()) return admitted.error();
    {
      const std::lock_guard lock(mutex_);
      places_[name] = {&host_, {0, share.id}, slice.memory};
    }
    slices_.emplace(share.id, slice);
    return server_->open_for(name, folder_ + "/" + name + ".sock");
  }

  Result<node::Placement> place_of(const std::string& slice) {
    const std::lock_guard lock(mutex_);
    const auto at = places_.find(slice);
    if (at == places_.end()) return Error{ErrorKind::kNotFound, "this is no slice's socket"};
    return at->second;
  }

  Position behind_others(const policy::ShareClient& share) const {
    Position end{kNone, kNone};
    for (const auto& [id, other] : slices_) {
      if (share.sm < kWhole)
        end.sm_begin = std::max(end.sm_begin, other.share.position.sm_begin + other.share.sm);
      else
        end.time_begin =
            std::max(end.time_begin, other.share.position.time_begin + other.share.quota.request);
    }
    return end;
  }

  std::string state(policy::ClientId id) {
    const auto at = slices_.find(id);
    if (at == slices_.end()) return "error no slice " + std::to_string(id);
    const auto client = host_.state({0, id});
    if (!client.ok()) return "error " + client.error().message;
    const node::MemoryLedger::Account memory = broker_.look(at->second.memory);
    std::ostringstream text;
    text << "ok " << client->used.count() << " " << client->processes << " " << memory.held << " "
         << memory.holders;
    return text.str();
  }

  const std::string folder_;
  SteadyClock clock_;
  const std::unique_ptr<node::GpuWatch> watch_;
  node::ArbiterHost host_;
  node::MemoryBroker broker_;
  std::map<policy::ClientId, Slice> slices_;
  std::mutex mutex_;  // guards places_
  std::map<std::string, node::Placement> places_;
  std::unique_ptr<node::PermitServer> server_;
};

}  // namespace
}  // namespace sluice::bench

int main(int count, char** arguments) {
  using namespace sluice::bench;
  Options options;
  for (int i = 1; i < count; ++i) {
    const auto takes = [&](const char* name) {
      return std::strcmp(arguments[i], name) == 0 && i + 1 < count;
    };
    if (takes("--arbiter"))
      options.arbiter = arguments[++i];
    else if (takes("--nvml"))
      options.nvml = arguments[++i];
    else
      options.folder = arguments[i];
  }
  if (options.folder.empty()) {
    std::fprintf(stderr, "gpu_slices FOLDER [--arbiter NAME] [--nvml LIBRARY]\n");
    return 2;
  }
  GpuSlices slices(options);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << slices.answer(line) << std::endl;
}
