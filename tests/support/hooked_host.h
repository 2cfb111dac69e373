// The hook of one program on a simulated GPU: the real gate and the real meter, over pages of its
// own, in the simulation's time. What the hook asks of the driver and of the system (events, naps,
// futexes, the doorbell) is answered by the simulation.
//
// A call of the hook's may take time, or sleep. So each program has a fiber of its own: run()
// begins a call there, and whenever the call has to wait, the simulation goes on and resumes it
// later. One thread; one call of a program at a time. Needs -Wl,--wrap of clock_gettime and
// syscall.
#pragma once

#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "device_model/device_model.h"
#include "hook/meter.h"

namespace sluice::hook {

class HookedHost {
 public:
  // Of the machine. A launch and an event as recorded on an H200 (bench/gpu/README.md); the others
  // are assumed.
  static constexpr Nanos kLaunch = Nanos(3'700);
  static constexpr Nanos kEvent = Nanos(800);
  static constexpr Nanos kQuery = Nanos(300);
  static constexpr Nanos kClock = Nanos(25);
  static constexpr Nanos kWake = Micros(60);  // a thread that sleeps, once it may go on

  // What the simulation does for its programs.
  class World {
   public:
    virtual ~World() = default;
    virtual Nanos now() const = 0;
    virtual void resume_at(HookedHost& host, Nanos when) = 0;
    virtual void rang(HookedHost& host) = 0;
    virtual void submitted() = 0;  // something to the device
  };

  HookedHost(World& world, emulator::DeviceModel& device, uint32_t client, uint32_t stream,
             uint32_t number);
  ~HookedHost();
  HookedHost(const HookedHost&) = delete;

  // Begins a call in the program's fiber; `then` follows it, outside. REQUIRES: none is running.
  void run(std::function<void()> call, std::function<void()> then);
  void resume();
  void stop() { stopped_ = true; }  // it does nothing from now on
  // The daemon has written its pages: a thread that sleeps wakes if that concerns it.
  void see_pages();

  // In its fiber. As the hook does (hook/launches.cc, hook/waits.cc) around what goes to the
  // driver.
  void launch(uint64_t key, const std::function<void()>& to_driver);
  void has_waited(Nanos since);

  // The simulation's time as the pages have it.
  static uint64_t page_ns(Nanos t) {
    return static_cast<uint64_t>((std::chrono::hours(1) + t).count());
  }

  int64_t resumes = 0;  // the simulation's: the last that was asked for counts

  sluice_permit_page permit{};
  sluice_usage_page usage{};

  // What the system and the driver are asked for; for the wrapped calls alone.
  static HookedHost* playing();
  uint64_t clock_ns() const { return page_ns(world_.now()); }
  void read_clock();
  void pass(Nanos time);
  long futex_wait(const uint32_t* word, uint32_t value, Nanos at_most);
  void ring() { world_.rang(*this); }
  uint32_t number() const { return number_; }
  CUevent make_event();
  void record(CUevent event);
  bool reached(CUevent event) const;
  double between_ms(CUevent first, CUevent second) const;

 private:
  static constexpr size_t kStack = 256 << 10;
  static void enter(unsigned high, unsigned low);
  void yield();
  void pass_gate();
  CUstream stream() const {
    return reinterpret_cast<CUstream>(static_cast<uintptr_t>(number_) << 8);
  }

  World& world_;
  emulator::DeviceModel& device_;
  const uint32_t client_, model_stream_, number_;
  std::unique_ptr<Meter> meter_;
  sluice_gate gate_{};
  sluice_attachment at_{};
  sluice_thread* state_ = nullptr;
  Lane* lane_ = nullptr;
  Stretch stretch_{};

  std::vector<char> stack_;
  ucontext_t outside_{}, inside_{};
  std::function<void()> call_, then_;
  bool stopped_ = false;
  const uint32_t* sleeps_on_ = nullptr;
  uint32_t sleeps_while_ = 0;
  int reads_ = 0;  // of the clock
};

}  // namespace sluice::hook
