#include "tests/support/gpu_bed.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "base/check.h"
#include "gpu/meter_cuda.h"

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;

const char* name_of(HeldBy held_by) {
  switch (held_by) {
    case HeldBy::kHook:
    case HeldBy::kNobody:
      return "driver";
    case HeldBy::kTokens:
      return "tokens";
    case HeldBy::kFeedback:
      return "feedback";
  }
  return "";
}

}  // namespace

void nap(Nanos t) {
  const timespec span{.tv_sec = t / Seconds(1), .tv_nsec = t % Seconds(1) / Nanos(1)};
  nanosleep(&span, nullptr);
}

GpuBed::GpuBed(std::string_view arbiter, bool side_by_side)
    : GpuBed(
          [&] {
            auto made = policy::make_arbiter(arbiter, {.side_by_side = side_by_side});
            SLUICE_CHECK(made.ok(), made.error().message);
            return std::move(*made);
          }(),
          side_by_side) {}

GpuBed::GpuBed(std::unique_ptr<policy::Arbiter> arbiter, bool side_by_side)
    : driver_(std::getenv("SLUICE_BENCH_DRIVER")),
      folder_("/dev/shm/sluice-gpu-bed-" + std::to_string(getpid())) {
  fs::remove_all(folder_);
  fs::create_directories(folder_);
  judge_ = real() ? judge_by_stamps(folder_) : judge_by_log(folder_, side_by_side);
  watch_ = node::GpuWatch::start(real() ? driver_ + std::string("/libnvidia-ml.so.1")
                                        : SLUICE_EMULATED_NVML);
  SLUICE_CHECK(!watch_->gpus().empty(), watch_->describe());
  host_ = std::make_unique<node::ArbiterHost>(clock_, node::HostConfig{});
  host_->add_device(std::move(arbiter), {}, 0);
  auto lookup = [this](const node::Peer& peer, uint32_t) -> Result<node::Placement> {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(getpgid(peer.process.pid));
    if (at == known_.end()) return Error{ErrorKind::kNotFound, "this process holds no slice here"};
    return node::Placement{host_.get(), {0, at->second}};
  };
  auto server = node::PermitServer::start({.path = folder_ + "/permit.sock"}, clock_, lookup);
  SLUICE_CHECK(server.ok(), server.error().message);
  server_ = std::move(*server);
}

GpuBed::~GpuBed() {
  while (!tenants_.empty()) stop(tenants_.begin()->first);
  server_.reset();
  host_.reset();
  fs::remove_all(folder_);
}

void GpuBed::run_program(const GpuProgram& program, int percent, HeldBy held_by, Share sm,
                         const std::string& stamps) const {
  if (sm < kWhole)
    setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(sm.permille / 10).c_str(), 1);
  setenv("SLUICE_PERMIT_SOCKET", (folder_ + "/permit.sock").c_str(), 1);
  setenv("LD_LIBRARY_PATH", real() ? driver_ : SLUICE_EMULATED_DRIVER_FOLDER, 1);
  if (held_by == HeldBy::kHook) setenv("LD_PRELOAD", SLUICE_CUDA_HOOK, 1);
  const std::string kernel_ns = std::to_string(program.kernel.count());
  const std::string share = std::to_string(percent);
  execl(SLUICE_GPU_TENANT, SLUICE_GPU_TENANT, program.load.c_str(), program.shape.c_str(),
        kernel_ns.c_str(), name_of(held_by), share.c_str(), stamps.c_str(), nullptr);
  _exit(127);
}

Share GpuBed::end_of_others(SmShare part) const {
  Share end;
  for (const auto& [id, t] : tenants_)
    if (t.share.position.sm_begin == part.begin)
      end = std::max(end, t.share.position.time_begin + t.share.quota.request);
  return end;
}

policy::ClientId GpuBed::start(const GpuProgram& program, int request, int limit, HeldBy held_by,
                               SmShare part) {
  const policy::ClientId id = ++last_id_;
  Tenant tenant{.share = {.id = id,
                          .sm = part.sm,
                          .quota = {{request}, {limit}},
                          .position = {part.begin, end_of_others(part)}}};
  auto meter =
      std::make_unique<node::CudaMeter>(watch_->account(watch_->gpus()[0].uuid), clock_.now());
  const Result<void> admitted = host_->admit(0, tenant.share, std::move(meter));
  SLUICE_CHECK(admitted.ok(), admitted.error().message);
  const std::string stamps = judge_->expect(id);
  const std::lock_guard lock(mutex_);  // it asks for its pages once it is known
  tenant.pid = fork();
  if (tenant.pid == 0) {
    setpgid(0, 0);
    for (int i = 1; i < program.processes && fork() != 0; ++i) {
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_program(program, request / 10, held_by, part.sm, stamps);
  }
  setpgid(tenant.pid, tenant.pid);  // parent or child, whichever comes first
  judge_->started(id, tenant.pid);
  known_[tenant.pid] = id;
  tenants_.emplace(id, tenant);
  return id;
}

// Killing an MPS client at work may take others along, so on a real device it is asked to end
// first.
void GpuBed::end(pid_t pid) const {
  constexpr int kTries = 3000;
  if (real()) kill(pid, SIGTERM);
  for (int i = 0; real() && i < kTries; ++i) {
    if (waitpid(pid, nullptr, WNOHANG) != 0) return;
    nap(Millis(1));
  }
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

void GpuBed::stop(policy::ClientId id) {
  const Tenant& tenant = tenants_.at(id);
  end(tenant.pid);
  host_->remove({0, id});
  judge_->stopped(id);
  {
    const std::lock_guard lock(mutex_);
    known_.erase(tenant.pid);
  }
  tenants_.erase(id);
}

void GpuBed::resize(policy::ClientId id, int request, int limit) {
  policy::ShareClient& share = tenants_.at(id).share;
  share.quota = {{request}, {limit}};
  const Result<void> resized = host_->change_share(0, share);
  SLUICE_CHECK(resized.ok(), resized.error().message);
}

std::optional<node::DeviceUse> GpuBed::accounted(policy::ClientId id) const {
  return watch_->account(watch_->gpus()[0].uuid)->latest(pid(id));
}

bool GpuBed::works(policy::ClientId id, Nanos used) {
  constexpr int kTries = 10'000;
  for (int i = 0; i < kTries && this->used(id) < used; ++i) nap(Millis(1));
  return this->used(id) >= used;
}

bool GpuBed::is_real() {
  return std::getenv("SLUICE_BENCH_DRIVER") != nullptr;
}

bool GpuBed::goes_side_by_side() {
  if (!is_real()) return true;
  const char* folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return fs::is_socket(fs::path(folder != nullptr ? folder : "/tmp/nvidia-mps") / "control");
}

std::string GpuBed::device() {
  const char* driver = std::getenv("SLUICE_BENCH_DRIVER");
  return driver != nullptr ? std::string("driver in ") + driver + ", judged by what kernels stamp"
                           : "emulated device of 132 SMs, judged by its log";
}

}  // namespace sluice::bench
