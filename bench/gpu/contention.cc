#include "bench/gpu/contention.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>

namespace sluice::bench {
namespace {

constexpr size_t kGaps = 1 << 16;
constexpr size_t kStamps = 1 << 18;
constexpr uint64_t kQueuedNs = 1'000'000;  // a batch of a neighbour's launches; two are queued

// One thread of a block reads the clock, the others wait for it. %last is where the device's clock
// stood in the first block when it was last read, also by the kernel before.
std::string busy_module() {
  return R"(//@ kernel busy ns=100000
.version 6.3
.target sm_75
.address_size 64
.global .align 8 .u64 last_read;
.visible .entry busy(.param .u64 page, .param .u64 length)
{
  .reg .pred %others, %first, %jumped, %more;
  .reg .b32 %thread, %block;
  .reg .b64 %page, %length, %now, %last, %step, %ran, %count, %at;
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %others, %thread, 0;
  @%others bra wait;
  ld.param.u64 %page, [page];
  ld.param.u64 %length, [length];
  mov.u32 %block, %ctaid.x;
  setp.eq.u32 %first, %block, 0;
  mov.u64 %ran, 0;
  mov.u64 %last, %globaltimer;
  @%first ld.volatile.global.u64 %last, [last_read];
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %step, %now, %last;
  setp.ge.u64 %jumped, %step, 5000;
  @!%jumped add.u64 %ran, %ran, %step;
  @!%jumped bra on;
  @!%first bra on;
  ld.volatile.global.u64 %count, [%page];
  and.b64 %at, %count, 65535;
  mad.lo.u64 %at, %at, 16, %page;
  st.volatile.global.u64 [%at+64], %last;
  st.volatile.global.u64 [%at+72], %now;
  add.u64 %count, %count, 1;
  membar.sys;
  st.volatile.global.u64 [%page], %count;
on:
  mov.u64 %last, %now;
  @%first st.volatile.global.u64 [last_read], %last;
  setp.lt.u64 %more, %ran, %length;
  @%more bra again;
wait:
  bar.sync 0;
  ret;
}
)";
}

std::string probe_module(uint64_t ns) {
  return "//@ kernel probe ns=" + std::to_string(ns) + R"(
.version 6.3
.target sm_75
.address_size 64
.global .align 4 .u32 ended;
.visible .entry probe(.param .u64 stamp, .param .u64 length)
{
  .reg .pred %others, %more;
  .reg .b32 %thread, %block, %blocks, %before;
  .reg .b64 %stamp, %now, %end;
  mov.u32 %thread, %tid.x;
  setp.ne.u32 %others, %thread, 0;
  @%others bra wait;
  mov.u64 %now, %globaltimer;
  ld.param.u64 %stamp, [stamp];
  ld.param.u64 %end, [length];
  add.u64 %end, %end, %now;
  mov.u32 %block, %ctaid.x;
  setp.ne.u32 %others, %block, 0;
  @!%others st.volatile.global.u64 [%stamp], %now;
again:
  mov.u64 %now, %globaltimer;
  setp.lt.u64 %more, %now, %end;
  @%more bra again;
  mov.u32 %blocks, %nctaid.x;
  sub.u32 %blocks, %blocks, 1;
  atom.global.inc.u32 %before, [ended], %blocks;
  setp.ne.u32 %others, %before, %blocks;
  @!%others st.volatile.global.u64 [%stamp+8], %now;
wait:
  bar.sync 0;
  ret;
}
)";
}

void* shared_memory(size_t bytes) {
  void* map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) std::exit(1);
  return map;
}

// Returns the device's address of host memory.
CUdeviceptr registered(void* memory, size_t bytes) {
  CUdeviceptr address = 0;
  GPU_CHECK(cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_DEVICEMAP));
  GPU_CHECK(cuMemHostGetDevicePointer(&address, memory, 0));
  return address;
}

}  // namespace

enum Order : int { kRest, kWork, kEnd };

// Shared by both processes and the device, which writes the first word and the gaps.
struct Neighbour::Page {
  uint64_t gap_count;
  std::atomic<uint64_t> kernels;
  std::atomic<int> order, follows;  // follows: the order that the neighbour has come to
  Load load;
  alignas(64) Gap gaps[kGaps];
};

namespace {

// Launches batches until it is told otherwise, or its parent has ended. Two are queued at all times
// but the end; with a period a batch is one kernel.
void work_on(Neighbour::Page& page, CUfunction kernel, CUdeviceptr address, CUevent (&ended)[2]) {
  Load load = page.load;
  const uint64_t batch =
      load.period_ns > 0 ? 1 : std::clamp<uint64_t>(kQueuedNs / load.block_ns, 1, 32);
  if (load.shared_bytes > 0)
    GPU_CHECK(cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                 static_cast<int>(load.shared_bytes)));
  void* parameters[] = {&address, &load.block_ns};
  uint64_t next = now_ns();
  for (uint64_t number = 0; page.order == kWork && getppid() != 1; ++number) {
    while (now_ns() < next) {
    }
    next += load.period_ns;
    for (uint64_t i = 0; i < batch; ++i)
      GPU_CHECK(cuLaunchKernel(kernel, load.blocks, 1, 1, load.threads, 1, 1, load.shared_bytes,
                               nullptr, parameters, nullptr));
    if (load.period_ns == 0) {
      GPU_CHECK(cuEventRecord(ended[number % 2], nullptr));
      if (number == 0) continue;
      GPU_CHECK(cuEventSynchronize(ended[(number - 1) % 2]));
    }
    page.kernels += batch;
    page.follows = kWork;
  }
  GPU_CHECK(cuCtxSynchronize());
}

[[noreturn]] void be_neighbour(Neighbour::Page& page) {
  {
    const Gpu gpu;
    const CUfunction kernel = Gpu::load(busy_module(), "busy");
    const CUdeviceptr address = registered(&page, sizeof page);
    CUevent ended[2] = {Gpu::event(), Gpu::event()};
    while (page.order != kEnd && getppid() != 1) {
      if (page.order == kWork) work_on(page, kernel, address, ended);
      page.follows = kRest;
      usleep(100);
    }
  }
  _exit(0);
}

}  // namespace

Neighbour::Neighbour(bool below) : page_(static_cast<Page*>(shared_memory(sizeof(Page)))) {
  page_->follows = kEnd;
  pid_ = fork();
  if (pid_ == 0) {
    if (below) setenv("CUDA_MPS_CLIENT_PRIORITY", "1", 1);
    be_neighbour(*page_);
  }
  rest();
}

Neighbour::~Neighbour() {
  page_->order = kEnd;
  waitpid(pid_, nullptr, 0);
  munmap(page_, sizeof *page_);
}

void Neighbour::work(const Load& load) {
  page_->load = load;
  page_->order = kWork;
  while (page_->follows != kWork && waitpid(pid_, nullptr, WNOHANG) == 0) usleep(100);
  kernels_before_ = page_->kernels;
  gaps_before_ = __atomic_load_n(&page_->gap_count, __ATOMIC_ACQUIRE);
}

void Neighbour::rest() {
  page_->order = kRest;
  while (page_->follows != kRest)
    if (waitpid(pid_, nullptr, WNOHANG) != 0)
      check(CUDA_ERROR_UNKNOWN, "the neighbour has ended");
    else
      usleep(100);
}

uint64_t Neighbour::kernels() const {
  return page_->kernels - kernels_before_;
}

std::vector<Gap> Neighbour::gaps() const {
  std::vector<Gap> gaps;
  const uint64_t end = __atomic_load_n(&page_->gap_count, __ATOMIC_ACQUIRE);
  for (uint64_t i = std::max(gaps_before_, end - std::min<uint64_t>(end, kGaps)); i < end; ++i)
    gaps.push_back(page_->gaps[i % kGaps]);
  return gaps;
}

Probe::Probe(const Gpu&, unsigned blocks, unsigned threads, uint64_t ns, bool above)
    : blocks_(blocks), threads_(threads), ns_(ns) {
  stamps_ = static_cast<Stamp*>(shared_memory(kStamps * sizeof(Stamp)));
  address_ = registered(stamps_, kStamps * sizeof(Stamp));
  kernel_ = Gpu::load(probe_module(ns), "probe");
  int least = 0, greatest = 0;
  GPU_CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
  GPU_CHECK(cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, above ? greatest : 0));
  launch(0);
  GPU_CHECK(cuCtxSynchronize());
}

Probe::~Probe() {
  cuStreamDestroy(stream_);
  cuMemHostUnregister(stamps_);
  munmap(stamps_, kStamps * sizeof(Stamp));
}

void Probe::launch(size_t number) {
  CUdeviceptr at = address_ + number % kStamps * sizeof(Stamp);
  uint64_t ns = ns_;
  void* parameters[] = {&at, &ns};
  GPU_CHECK(
      cuLaunchKernel(kernel_, blocks_, 1, 1, threads_, 1, 1, 0, stream_, parameters, nullptr));
}

std::vector<Probe::Stamp> Probe::launch_every(uint64_t period_ns, uint64_t for_ns) {
  const uint64_t began = now_ns();
  size_t count = 0;
  for (uint64_t next = began; next < began + for_ns && count < kStamps; ++count) {
    while (now_ns() < next) {
    }
    launch(count);
    next = std::max(next + period_ns, period_ns == 0 ? now_ns() : 0);
  }
  GPU_CHECK(cuCtxSynchronize());
  return {stamps_, stamps_ + count};
}

std::vector<double> Probe::one_at_a_time(uint64_t for_ns) {
  std::minstd_rand random(1);
  std::vector<double> us;
  for (const uint64_t end = now_ns() + for_ns; now_ns() < end;) {
    const uint64_t begin = now_ns() + 200'000 + random() % 400'000;
    while (now_ns() < begin) {
    }
    const uint64_t called = now_ns();
    launch(us.size());
    CUresult result;
    while ((result = cuStreamQuery(stream_)) == CUDA_ERROR_NOT_READY) {
    }
    check(result, "the probe's kernel");
    us.push_back(static_cast<double>(now_ns() - called) / 1000);
  }
  return us;
}

}  // namespace sluice::bench
