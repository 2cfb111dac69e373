// The emulated device: streams of work, SMs, memory bandwidth and copy engines in device time. A
// pure function of what was submitted and when. It knows nothing of CUDA, and has no clock, file or
// thread.
//
//   Streams     are queues; the head of each may run. The streams of one group (a context) keep the
//               order between its legacy stream and its blocking ones.
//   Kernels     run `waves × wave_ns`, waves = blocks ÷ SMs granted. With sharing (MPS) all clients
//               run at once, each within its cap; without, they are time-sliced: a client runs
//               until its slice is over and another has work, or until its queue has been dry for
//               `linger_ns`; then nothing runs for `switch_ns`. SMs are granted in the order in
//               which kernels became ready, the next kernel what is left over. With `block_wait`
//               they are shared max–min fair instead: a kernel that does not fit starts once blocks
//               of a neighbour have ended.
//   Bandwidth   is shared max–min fair; a kernel with less than it asks for runs slower by as much.
//   The log     holds every interval in which a kernel ran on a given number of SMs. Every figure
//               about shares is checked against it.
//
// A flat value of fixed size without pointers, so that processes can share it in a mapped file;
// zeroed memory and reset() make one. The caller has the lock, and calls advance() before anything
// else.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

namespace sluice::emulator {

using Ns = std::int64_t;

inline constexpr std::uint32_t kMostSms = 256;
inline constexpr Ns kNever = std::numeric_limits<Ns>::max();

struct DeviceSpec {
  std::uint32_t sms = 132;
  bool shared = false;           // several clients at once (MPS), or time-sliced
  Ns slice_ns = 2'000'000;       // counted from a client's switch
  Ns switch_ns = 0;              // between two clients' slices
  Ns linger_ns = 0;              // a client with nothing to run keeps its slice so long
  std::uint32_t block_wait = 0;  // ‰ of a neighbour's block, on average; 0: no blocks are shared
  std::uint32_t slowdown = 0;    // ‰ by which neighbours on all other SMs slow a kernel
  double link_gbps = 50;         // bytes per ns of each copy engine between host and device
  double memory_gbps = 3000;     // bytes per ns within the device

  // What is assumed of an H200; the wait for a block is fitted, so that eager inference beside
  // training is as slow under MPS as in an earlier model of it (device_calibration_test).
  static DeviceSpec h200(bool shared) {
    return {.shared = shared,
            .switch_ns = 80'000,
            .linger_ns = 100'000,
            .block_wait = 1220,
            .slowdown = 150};
  }
};

enum class StreamKind : std::uint8_t { kBlocking, kNonBlocking, kLegacy };
enum class Engine : std::uint8_t { kToDevice, kFromDevice, kWithin };
inline constexpr std::size_t kEngines = 3;

struct Kernel {
  std::uint32_t function = 0;    // which one it is, for the log
  std::uint32_t blocks = 1;      // of its grid; one block takes an SM for wave_ns
  std::uint32_t most_sms = ~0U;  // it cannot use more
  std::uint32_t bandwidth =
      0;                  // permille of the device's memory bandwidth, on all SMs that it can use
  bool together = false;  // cooperative: all its blocks at once, or none
  Ns wave_ns = 0;
};

// A place in a stream's queue: reached when everything up to it has run.
struct Ticket {
  std::uint32_t stream = 0;
  std::uint32_t generation = 0;
  std::uint64_t seq = 0;
};

struct Stretch {
  Ns begin_ns, end_ns;
  std::uint32_t process;
  std::uint32_t function;
  std::uint32_t sms;
  std::uint32_t last;  // 1: the kernel ended at end_ns
};

struct Usage {
  Ns busy_ns = 0;  // at least one kernel of it ran
  Ns sm_ns = 0;    // summed over its SMs
};

class DeviceModel {
 public:
  static constexpr std::uint32_t kClients = 512, kStreams = 4096, kEvents = 32768, kOps = 65536;
  static constexpr std::uint64_t kLog = 1U << 19;
  static constexpr std::uint32_t kNone = ~0U;

  // Begins anew, from zeroed memory or from a model that is no longer used.
  void reset(const DeviceSpec& spec, Ns now);

  // Clients, streams and events are numbered; kNone: the table is full.
  std::uint32_t add_client(std::uint32_t process, std::uint32_t sm_permille);
  void remove_client(std::uint32_t client);  // what is queued runs on; its events go
  std::uint32_t open_stream(std::uint32_t client, std::uint32_t group, StreamKind kind);
  void close_stream(std::uint32_t stream);  // what is queued runs on
  std::uint32_t open_event(std::uint32_t client);
  void close_event(std::uint32_t event);

  // Each appends to a stream's queue. Nothing is refused while room(n) holds before n of them.
  bool room(std::uint32_t operations) const { return free_ops_ >= operations; }
  void launch(std::uint32_t stream, const Kernel& kernel);
  void copy(std::uint32_t stream, Engine engine, std::uint64_t bytes);
  void wait(std::uint32_t stream, Ticket ticket);
  void record(std::uint32_t stream, std::uint32_t event);
  // Work behind it waits for release(), which follows once a function of the host's has run. A hold
  // of a client that has left delays nothing.
  Ticket hold(std::uint32_t stream);
  bool holds(Ticket hold) const;  // work before it has run, and it is not released
  void release(Ticket hold);
  bool held() const;  // any stream, now

  // Drops what the client has queued and stops what it runs: its context died of an error.
  void abort_client(std::uint32_t client);

  Ticket end_of(std::uint32_t stream) const;  // everything submitted so far
  bool reached(Ticket ticket) const;
  std::uint32_t queued(std::uint32_t stream) const { return streams_[stream].length; }

  struct Recorded {
    bool ever;  // was recorded
    bool done;  // and the last record was reached
    Ns when;    // when that was
    Ticket at;
  };
  Recorded recorded(std::uint32_t event) const;

  // Lets the device run until `now`; an earlier time than before changes nothing.
  void advance(Ns now);
  Ns now() const { return now_; }
  // When the next operation ends if nothing else is submitted; nullopt: none runs.
  std::optional<Ns> next_change() const;

  Usage usage(std::uint32_t client) const { return clients_[client].usage; }
  Ns device_busy_ns() const { return device_busy_ns_; }
  Ns device_sm_ns() const { return device_sm_ns_; }  // summed over the SMs that ran a kernel
  const DeviceSpec& spec() const { return spec_; }
  void set_cap(std::uint32_t client, std::uint32_t sm_permille);
  void set_shared(bool shared) { spec_.shared = shared; }

  // After a process was killed in the middle of a change: derives anew what follows from the
  // queues.
  void repair();

  // The log keeps the last kLog intervals ever written, up to log_end() − 1.
  std::uint64_t log_end() const { return log_end_; }
  const Stretch& stretch(std::uint64_t index) const { return log_[index % kLog]; }

 private:
  enum class OpKind : std::uint8_t { kKernel, kCopy, kWait, kRecord, kHold };
  struct Op {
    OpKind kind;
    Engine engine;
    bool ready;     // nothing before it is left; since ready_ns
    bool released;  // a hold
    std::uint32_t stream, next, event, event_generation;
    std::uint32_t sms;  // granted; 0: it does not run
    std::uint64_t seq;
    Kernel kernel;
    Ticket ticket;
    Ns ready_ns, begin_ns;  // of the interval that the log will hold
    Ns starts_ns;           // with block_wait: a block is free for it then; 0: not known yet
    Ns took_ns;             // of the whole, as it runs now
    Ns since_ns, end_ns;    // with `left` at since_ns, it ends then
    double left;            // of the whole, at since_ns
  };
  struct Client {
    bool used, leaving;
    std::uint32_t process, sm_permille, streams, granted;
    Usage usage;
    Ns accounted_ns;  // its usage is counted up to here
  };
  struct Stream {
    bool used, closing;
    StreamKind kind;
    std::uint32_t client, group, generation, first, last, length;
    std::uint64_t submitted, reached;  // seq
  };
  struct Event {
    bool used, ever, done;
    std::uint32_t client, generation;
    Ticket at;
    Ns when;
  };
  // The kernels that could run now, in the order in which SMs are given.
  struct Candidates {
    std::array<std::uint32_t, kStreams> op;
    std::uint32_t count;
  };

  Op& append(std::uint32_t stream, OpKind kind);
  void pop(std::uint32_t stream);
  void write_log(const Op& op, bool last);
  void free_stream_if_drained(std::uint32_t stream);
  template <typename F>
  void for_busy_streams(F&& visit) const;

  bool blocked(const Stream& stream, const Op& head) const;
  bool holds(const Stream& stream) const;
  bool settle();
  void collect(Candidates& out);
  Client& client_of(const Candidates& candidates, std::uint32_t i) {
    return clients_[streams_[ops_[candidates.op[i]].stream].client];
  }
  static std::uint32_t width(const Op& op) {
    return std::min(op.kernel.blocks, op.kernel.most_sms);
  }
  std::uint32_t cap(const Client& client) const;
  void begin_slice(std::uint32_t client);
  Ns end_of_slice() const;
  std::uint32_t next_client(const Candidates& candidates, bool& current_has_work) const;
  void take_slices(const Candidates& candidates);
  void grant_sms(const Candidates& candidates);
  void grant_sms_in_order(const Candidates& candidates);
  void find_free_blocks(const Candidates& candidates);
  void grant_sms_fairly(const Candidates& candidates);
  void grant_bandwidth(const Candidates& candidates);
  void set_sms(Op& op, std::uint32_t sms);
  void set_pace(Op& op, Ns took_ns);
  void start_copies();
  void plan();
  void account(Ns until);
  void finish(Ns at);

  DeviceSpec spec_;
  Ns now_, device_busy_ns_, device_sm_ns_;
  // Time slicing.
  std::uint32_t current_;  // the client whose slice it is
  std::uint32_t next_;     // the client that is being switched to; kNone: none is
  Ns slice_began_;
  Ns contended_since_;  // another client has had work; kNever: none has
  Ns dry_since_;        // the current client has had none; kNever: it has some
  Ns slice_changes_;    // the slice, or the switch, is over then; kNever: no client waits for it
  std::uint32_t free_op_, free_ops_, ops_touched_;
  std::uint32_t streams_touched_;  // no stream from here on was ever opened
  std::array<std::uint32_t, kEngines> engine_op_;
  std::uint64_t seq_, log_end_;
  std::array<std::uint64_t, kStreams / 64> busy_;  // streams that have work
  std::array<Client, kClients> clients_;
  std::array<Stream, kStreams> streams_;
  std::array<Event, kEvents> events_;
  std::array<Op, kOps> ops_;
  Candidates candidates_, running_;  // running_: in the order of their widths
  std::array<Stretch, kLog> log_;
};
static_assert(std::is_trivially_copyable_v<DeviceModel>);

}  // namespace sluice::emulator
