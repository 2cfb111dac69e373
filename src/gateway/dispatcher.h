// The dispatcher: every function's queue, its instances' credit, and its counters. All waiting
// happens here, not at instances, so that a request binds as late as possible
// (docs/design/gateway.md).
//
// Thread-safe by one mutex, held for well under a microsecond at a time: a function's queue must be
// one queue whatever the number of loops, or its order (earliest deadline, lost ones last) would
// hold per loop only. Time is handed in. A Waiter belongs to its session; the dispatcher keeps a
// pointer from enter() until it was granted, refused or cancelled.
//
// Admission (routing/admission.h): a request that is not expected to be answered by its
// deadline is refused on arrival, unless its function admits all. A refused request is demand: it
// counts as a request, and in the concurrency as if it had stayed for its function's objective. A
// waiter that comes again with the same content before its Retry-After has passed is the same
// demand, and counts as repeated. A waiter is a connection, so a client that opens another for each
// retry counts each time.
//
// A body that streams through
// holds an instance for as long as its client sends: such requests hold at most all but one of a
// function's batch slots (one where there is only one), and a quarter of the places of its queue.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/size_histogram.h"
#include "gateway/table.h"
#include "routing/admission.h"
#include "routing/rate.h"
#include "routing/route.h"
#include "wire/json/model_statistics.h"

namespace sluice::gateway {

// One instance, in the table or not any more; kept while any request is there.
struct Upstream {
  std::string id;
  std::string socket;
  int outstanding = 0;
  int together = 0;  // outstanding at the last grant, those granted then included
  uint64_t answered = 0;
  uint64_t inferences = 0;
  uint64_t late = 0;         // of the answered ones, after the SLO
  uint64_t slow = 0;         // of these, those that took longer than the SLO since their grant
  Histogram latency;         // arrival → last byte, of the answered ones
  SizeHistogram body_bytes;  // of the answered ones' requests
  Nanos busy{0};             // sum over its requests of granted → answered
  int asked = 0;             // inferences of the outstanding requests; questions count none
  policy::ServiceTime service;
  policy::ServiceRate rate;
  policy::LateFraction late_lately;
  Time last_grant{}, last_answer{};
  Time overdue_since{};  // a request ran into its time-out here, with its client or without, and no
                         // answer followed; else Time{}
  Time down_until{};     // refused a connection: gets no requests until then
  Nanos down_for{0};
};

struct FunctionState;
struct RevisionQueue;

// A request: names its function with find(), has a place from enter() to finish().
class Waiter {
 public:
  virtual ~Waiter() = default;
  // Or a question about the model, which an instance also answers. It waits like the others, but is
  // no load, so it is not counted. Set before find().
  bool is_inference = true;
  // It asks a program by a path of the program's. Set before find().
  bool is_http = false;
  // Part of its body is still to come: it will hold its instance meanwhile. Set before enter().
  bool streams = false;
  // For the route. Set before enter(); 0: unknown.
  uint64_t body_bytes = 0;
  int inferences = 0;
  // The instance's report with the answer. Set before finish().
  std::optional<wire::ComputeReport> compute;
  // What it says, as a hash: it tells a repetition from the next request of a connection. 0: not
  // known.
  virtual uint64_t content() const { return 0; }
  // It is another client's from now on: a refusal before was not its own.
  void begin_anew() { refused_by_ = nullptr; }
  // Called once with the dispatcher's mutex held, on the thread that dispatched: wake the session,
  // do nothing else. granted() has the result.
  virtual void on_granted() = 0;

  // After on_granted(), null if no instance takes the request. Either its place went to a request
  // that can still be in time (displaced()), or turned_away() gives the reason.
  const std::shared_ptr<Upstream>& granted() const { return upstream_; }
  bool displaced() const { return displaced_; }
  const std::string& turned_away() const { return turned_away_; }
  int more() const { return more_; }  // requests granted with it to the same instance, after it
  int revision() const { return revision_; }
  Time deadline() const { return deadline_; }  // by its function's objective, else its time-out

 private:
  friend class Dispatcher;
  friend struct FunctionState;
  std::shared_ptr<FunctionState> function_;
  policy::DeadlineQueue<Waiter*>::Ticket ticket_;
  std::shared_ptr<Upstream> upstream_;
  Time arrived_{}, deadline_{}, granted_at_{};
  int revision_ = 0;
  int more_ = 0;
  int together_ = 0;     // requests that the instance had once it was granted the last of these
  bool waited_ = false;  // admission expected it to wait and be in time
  const void* refused_by_ = nullptr;  // the function that refused it last
  uint64_t refused_content_ = 0;
  Time again_from_{};     // that refusal's Retry-After
  bool queued_ = false;   // in the queue
  bool counted_ = false;  // holds one of the queue's places
  bool entered_ = false;  // was counted as a request
  bool sending_ = false;  // counts among its function's streaming requests
  bool cold_ = false;     // no instance was ready when it arrived
  bool displaced_ = false;
  bool asks_ = false;  // whether to send its body: takes no place
  std::string turned_away_;
};

enum class Outcome {
  kOk,
  kInvalid,  // answered with 4xx: the caller's fault, no violation
  kFailed,
  kTimedOut,
  kGone,       // the client left
  kAbandoned,  // the client left, and its instance did not answer by the time-out either
  kShed,       // displaced
  kBroken,     // the instance died; it gets no requests for a moment
};

struct Counters {
  uint64_t requests = 0;  // for an inference by this function
  uint64_t ok = 0;
  uint64_t invalid = 0;  // answered with 4xx
  uint64_t failed = 0;   // an error of the instance, or no instance
  uint64_t shed = 0;     // 429
  uint64_t timed_out = 0;
  uint64_t gone = 0;         // the client left
  uint64_t late = 0;         // ok, after the SLO
  uint64_t cold_starts = 0;  // waited for an instance to start
  uint64_t retried = 0;
  uint64_t repeated = 0;           // came again before a refusal's Retry-After had passed
  uint64_t inferences = 0;         // of answered requests
  double concurrency_seconds = 0;  // ∫ (waiting + in flight) dt, and the objectives of refused ones
  uint64_t gaps = 0;               // between arrivals
  double gap_sum = 0, gap_squares = 0;
  Histogram latency;  // arrival → last byte, of those that are ok
  Histogram waiting;  // arrival → granted

  bool operator==(const Counters&) const = default;
};

// What one revision has done since it joined the split.
struct RevisionStats {
  wire::ModelStatistics model;  // its last_inference is not set: `last` is used
  Time last{};                  // the last answer; Time{}: none
  uint64_t rejected = 0, cancelled = 0, broken = 0, timed_out = 0;
  int queued = 0;
};

struct FunctionStats {
  FunctionName name;
  Counters counters;
  std::map<int, RevisionStats> revisions;  // those of the split
  int queued = 0, in_flight = 0;
  std::vector<Upstream> instances;
};

class Dispatcher {
 public:
  // `platform_token`: the token that callers of functions without one of their own must bear;
  // empty: none. `routes`: those that a table may name.
  explicit Dispatcher(std::string platform_token = {},
                      std::span<const policy::Route> routes = policy::routes())
      : platform_token_(std::move(platform_token)), routes_(routes) {}

  // Replaces the table. Waiting and running requests go on, with one exception: a request is turned
  // away if it waits for a function that the table lacks, or that is unavailable and has no ready
  // instance.
  void set_table(RoutingTable table, Time now);
  // The same for only the functions of a change. Returns false and does nothing if the change is
  // not based on this table's version.
  bool change_table(const RoutingChange& change, Time now);
  RoutingTable table() const;

  enum class Refusal { kNone, kUnknown, kUnavailable, kFull, kLate, kUnknownRevision, kDenied };
  struct Entry {
    Refusal refusal = Refusal::kNone;
    std::string why;
    Nanos timeout{0};
    Nanos retry_after{0};        // with kFull and kLate: 1 to 60 s
    std::string versions;        // "1,2": those with traffic; only for questions
    bool token_is_ours = false;  // the function wants a token: the instance must not see it
  };
  // Finds the function of a request whose head has arrived, and checks its token; takes no place.
  // Revision 0: the split chooses. A question goes to the revision with the largest part of the
  // traffic, so that its answer stays the same during a canary. Refusals: kUnknown,
  // kUnknownRevision, kDenied.
  Entry find(Waiter& waiter, std::string_view served, int revision, std::string_view token);
  // Takes a place for a request that find() found, and dispatches. Its latency and its deadline
  // count from its head's arrival. But the arrival of its body uses up at most half of the
  // objective, and admission grants all of the objective, so that a slow client is served too.
  // `body_to_come`: the client asks whether to send its body (Expect: 100-continue). It takes no
  // place then; what would be refused now is refused, and counted so.
  // Refusals: kFull, kLate, kUnavailable.
  Entry enter(Waiter& waiter, Time arrived, Time now, bool body_to_come = false);
  // All of a streamed body has arrived: from now on it holds its instance only as long as others
  // do.
  void sent(Waiter& waiter, Time now);
  // The client has closed its sending side: it may have left, or wait for its answer. If the
  // request waits, it goes behind all others, and is the first to be displaced.
  void defer(Waiter& waiter);
  // The instance broke before the answer began: the same place again. Counts as retried.
  void again(Waiter& waiter, bool refused_connection, Time now);
  // Ends the request in any state; one that never entered counts as a request nevertheless.
  // `inferences` as the instance reported; 0: one.
  void finish(Waiter& waiter, Outcome outcome, uint64_t inferences, Time now);

  // Gives instances that were down another chance. Call about every 50 ms.
  void tick(Time now);

  std::vector<FunctionStats> stats(Time now);
  // Returns one function's; nothing if the table lacks it.
  std::optional<FunctionStats> stats(std::string_view served, Time now);
  // Returns the instances that have a request in hand, in the table or not any more. An instance
  // that the table gives no more requests and that is not among them will never be sent anything
  // again.
  std::vector<std::string> busy() const;
  bool knows(std::string_view served) const;
  bool admits(std::string_view token) const;  // to paths that belong to no function

 private:
  static FunctionStats stats_of(FunctionState& f, Time now);
  void set_route(const std::string& served, const FunctionRoute& route, Time now);
  void remove(FunctionState& f, Time now);
  Entry admit(FunctionState& f, Waiter& waiter, Time now);
  static void line_up(Waiter& waiter);
  bool would_admit(FunctionState& f, Waiter& waiter, Time now);
  static bool make_place(FunctionState& f, const Waiter& waiter, Time now);
  static bool repeats(const FunctionState& f, const Waiter& waiter, Time now);
  static void count_arrival(FunctionState& f, const Waiter& waiter, Time now);
  static void refused(FunctionState& f, Waiter& waiter, Nanos retry_after, Time now);
  static bool displace(FunctionState& f, int revision, Time now);
  static void turn_away(RevisionQueue& queues, std::string_view why);
  void dispatch(FunctionState& f, Time now, const Upstream* freed = nullptr);
  static void grant(FunctionState& f, Waiter& waiter, size_t instance, Time now);
  void release(Waiter& waiter, uint64_t inferences, Time now);
  void count_end(const Waiter& waiter, Outcome outcome, uint64_t inferences, Time now);

  const std::string platform_token_;
  const std::span<const policy::Route> routes_;
  mutable std::mutex mutex_;
  RoutingTable table_;
  std::map<std::string, std::shared_ptr<FunctionState>, std::less<>> functions_;
  std::vector<std::shared_ptr<Upstream>> leaving_;  // no longer in the table; some are busy
};

}  // namespace sluice::gateway
