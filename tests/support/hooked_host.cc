#include "tests/support/hooked_host.h"

#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/check.h"
#include "hook/blocking_streams.h"
#include "hook/captures.h"
#include "wire/permit_hints.h"

namespace sluice::hook {

unsigned open_captures;
bool blocking_stream_seen;

namespace {
HookedHost* now_playing;
}  // namespace

HookedHost* HookedHost::playing() {
  return now_playing;
}

HookedHost::HookedHost(World& world, emulator::DeviceModel& device, uint32_t client,
                       uint32_t stream, uint32_t number)
    : world_(world),
      device_(device),
      client_(client),
      model_stream_(stream),
      number_(number),
      meter_(new Meter()),
      stack_(kStack) {
  permit.header = {SLUICE_PERMIT_MAGIC, SLUICE_WIRE_VERSION, SLUICE_PAGE_SIZE, 1, 0};
  permit.seq = 1;
  at_.permit = &permit;
  at_.usage = &usage;
  at_.metered = gate_.metered = 1;
  at_.bell = at_.sock = -1;
  sluice_process* process = sluice_process_of(&gate_);
  process->waited = 1;
  process->current = &at_;
}

HookedHost::~HookedHost() {
  munmap(gate_.process, sizeof *gate_.process);
}

// ---- the fiber ----------------------------------------------------------------------------------

void HookedHost::enter(unsigned high, unsigned low) {
  auto* host = reinterpret_cast<HookedHost*>(static_cast<uintptr_t>(high) << 32 | low);
  host->call_();
  host->call_ = nullptr;
  host->yield();
}

void HookedHost::run(std::function<void()> call, std::function<void()> then) {
  SLUICE_CHECK(call_ == nullptr, "a program's thread makes one call at a time");
  call_ = std::move(call);
  then_ = std::move(then);
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.data();
  inside_.uc_stack.ss_size = stack_.size();
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
  resume();
}

void HookedHost::resume() {
  if (stopped_) return;
  permit.heartbeat_ns = clock_ns();
  now_playing = this;
  swapcontext(&outside_, &inside_);
  now_playing = nullptr;
  if (call_ != nullptr) return;
  const std::function<void()> then = std::exchange(then_, nullptr);
  if (then) then();
}

void HookedHost::yield() {
  swapcontext(&inside_, &outside_);
}

// A thread that spins reads the clock again and again.
void HookedHost::read_clock() {
  constexpr int kReads = 50;
  if (++reads_ % kReads == 0) pass(kReads * kClock);
}

void HookedHost::pass(Nanos time) {
  world_.resume_at(*this, world_.now() + time);
  yield();
}

long HookedHost::futex_wait(const uint32_t* word, uint32_t value, Nanos at_most) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return -1;
  sleeps_on_ = word;
  sleeps_while_ = value;
  pass(at_most);
  sleeps_on_ = nullptr;
  return 0;
}

void HookedHost::see_pages() {
  if (sleeps_on_ == nullptr || *sleeps_on_ == sleeps_while_) return;
  sleeps_on_ = nullptr;
  world_.resume_at(*this, world_.now() + kWake);
}

// ---- what the hook does -------------------------------------------------------------------------

void HookedHost::pass_gate() {
  if (stretch_.begun_ns == 0 && sluice_slo(&at_) != 0)
    stretch_ = meter_->begin_stretch(&at_, number_);
  if (state_ != nullptr && state_->seq != nullptr && sluice_gate_holds(&at_))
    meter_->drain(&at_, number_, stream());
  sluice_gate_pass(&gate_, &state_);
}

void HookedHost::launch(uint64_t key, const std::function<void()>& to_driver) {
  const auto submit = [&] {
    pass(kLaunch);
    to_driver();
    world_.submitted();
  };
  if (lane_ != nullptr && sluice_gate_open(state_) && meter_->passes_at_once(lane_, stream(), key))
    return submit();
  pass_gate();
  lane_ = meter_->lane_of(number_, stream());
  if (lane_ != nullptr && meter_->passes(lane_, key)) return submit();
  const Work work{stream(), key, 0};
  Unit unit{};
  const Start start = meter_->start(&at_, number_, work, &unit);
  if (start == Start::kOnLeave) return submit();
  if (start == Start::kLater) {
    if (!meter_->make_room(&at_, number_, work)) sluice_gate_look(state_);
    pass_gate();
    unit = meter_->begin(&at_, number_, work);
  }
  lane_ = unit.lane;
  submit();
  meter_->end(&at_, work, unit, true);
}

void HookedHost::has_waited(Nanos since) {
  const bool idle = meter_->waited(&at_, number_, stream(), page_ns(since));
  if (stretch_.begun_ns != 0) {
    meter_->end_stretch(&at_, number_, stretch_);
    stretch_ = {};
    sluice_gate_look(state_);
  }
  if (idle && state_ != nullptr) sluice_gate_idle_begin(state_);
}

// ---- events -------------------------------------------------------------------------------------

CUevent HookedHost::make_event() {
  const uint32_t event = device_.open_event(client_);
  SLUICE_CHECK(event != emulator::DeviceModel::kNone, "the simulated device is out of events");
  return reinterpret_cast<CUevent>(static_cast<uintptr_t>(event) + 1);
}

namespace {
uint32_t number_of(CUevent event) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(event) - 1);
}
}  // namespace

void HookedHost::record(CUevent event) {
  pass(kEvent);
  device_.record(model_stream_, number_of(event));
  world_.submitted();
}

bool HookedHost::reached(CUevent event) const {
  return device_.recorded(number_of(event)).done;
}

double HookedHost::between_ms(CUevent first, CUevent second) const {
  return static_cast<double>(device_.recorded(number_of(second)).when -
                             device_.recorded(number_of(first)).when) /
         1e6;
}

}  // namespace sluice::hook

// ---- what the hook asks of the system and of the driver -----------------------------------------

using sluice::Nanos;
using sluice::hook::HookedHost;

extern "C" {

int __real_clock_gettime(clockid_t clock, timespec* time);
int __wrap_clock_gettime(clockid_t clock, timespec* time) {
  HookedHost* host = HookedHost::playing();
  if (host == nullptr) return __real_clock_gettime(clock, time);
  host->read_clock();
  const uint64_t now = host->clock_ns();
  *time = {static_cast<time_t>(now / 1'000'000'000), static_cast<long>(now % 1'000'000'000)};
  return 0;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  HookedHost* host = HookedHost::playing();
  const auto time = [&](int at) {
    const auto* t = reinterpret_cast<const timespec*>(arguments[at]);
    return sluice::Seconds(t->tv_sec) + Nanos(t->tv_nsec);
  };
  if (host == nullptr)
    return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                          arguments[4], arguments[5]);
  switch (number) {
    case SYS_gettid:
      return host->number();
    case SYS_nanosleep:
      host->pass(time(0) + HookedHost::kWake);
      return 0;
    case SYS_futex:
      return host->futex_wait(reinterpret_cast<const uint32_t*>(arguments[0]),
                              static_cast<uint32_t>(arguments[2]), time(3));
    case SYS_write:
      host->ring();
      return 0;
    default:  // whether a thread lives
      return 0;
  }
}

CUresult driver_cuCtxGetCurrent(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(0x10);
  return CUDA_SUCCESS;
}
CUresult driver_cuCtxGetId(CUcontext, unsigned long long* id) {
  *id = 1;
  return CUDA_SUCCESS;
}
CUresult driver_cuEventCreate(CUevent* event, unsigned) {
  *event = HookedHost::playing()->make_event();
  return CUDA_SUCCESS;
}
CUresult driver_cuEventRecord(CUevent event, CUstream) {
  HookedHost::playing()->record(event);
  return CUDA_SUCCESS;
}
CUresult driver_cuEventQuery(CUevent event) {
  HookedHost::playing()->pass(HookedHost::kQuery);
  return HookedHost::playing()->reached(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
CUresult driver_cuEventElapsedTime(float* ms, CUevent from, CUevent to) {
  *ms = static_cast<float>(HookedHost::playing()->between_ms(from, to));
  return CUDA_SUCCESS;
}
CUresult driver_cuStreamQuery(CUstream) {
  return CUDA_ERROR_NOT_READY;  // events show its ends
}

}  // extern "C"
