// The dispatcher: every function's queue, its instances' credit, and its counters. All waiting
// happens here, not at instances, so that a request binds as late as it can (§4 of the experiments:
// this alone halves everybody's violations).
//
// Thread-safe by one mutex, held for well under a microsecond at a time: a function's queue must be
// one queue whatever the number of loops, or its order (earliest deadline, lost ones last) would
// hold per loop only. Time is handed in. A Waiter belongs to its session; the dispatcher keeps a
// pointer from enter() until it was granted, refused or cancelled.
//
// Admission (policy/route_admission.h): a request that is not expected to be answered by its
// deadline is refused on arrival, unless its function admits all. A body that streams through
// holds an instance for as long as its client sends: such requests hold at most all but one of a
// function's batch slots (one where there is only one), and a quarter of the places of its queue.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "gateway/table.h"
#include "policy/route.h"
#include "policy/route_admission.h"
#include "wire/model_statistics.h"

namespace sluice::gateway {

// One instance, for as long as anybody has a request there, in the table or not any more.
struct Upstream {
  std::string id;
  std::string socket;
  int outstanding = 0;
  uint64_t answered = 0;
  uint64_t inferences = 0;
  Nanos busy{0};  // sum over its requests of granted → answered
  policy::ServiceTime service;
  Time last_grant{};
  Time overdue_since{};  // a request timed out here, and nothing was answered since; else Time{}
  Time down_until{};     // refused a connection: gets nothing until then
  Nanos down_for{0};
};

struct FunctionState;

// A request: asks for a function with find(), has a place from enter() to finish().
class Waiter {
 public:
  virtual ~Waiter() = default;
  // Or a question about the model, which an instance answers as well: it waits like the others, but
  // it is no load, so nothing of it is counted. Set before find().
  bool is_inference = true;
  // Its body is not all here: it will hold its instance while the rest comes. Set before enter().
  bool streams = false;
  // What its instance reported with the answer. Set before finish().
  std::optional<wire::ComputeReport> compute;
  // Called once with the dispatcher's mutex held, from whichever thread dispatched: wake the
  // session, do nothing else. granted() tells the rest.
  virtual void on_granted() = 0;

  // Nothing after on_granted(): no instance will have it. Its place went to a request that can
  // still be in time (displaced()), or its function was deleted.
  const std::shared_ptr<Upstream>& granted() const { return upstream_; }
  bool displaced() const { return displaced_; }
  int more() const { return more_; }  // requests granted with it to the same instance, after it
  int revision() const { return revision_; }
  Time deadline() const { return deadline_; }  // by its function's objective, else its time-out

 private:
  friend class Dispatcher;
  std::shared_ptr<FunctionState> function_;
  policy::DeadlineQueue<Waiter*>::Ticket ticket_;
  std::shared_ptr<Upstream> upstream_;
  Time arrived_{}, deadline_{}, granted_at_{};
  int revision_ = 0;
  int more_ = 0;
  bool queued_ = false;   // in the queue
  bool counted_ = false;  // holds one of the queue's places
  bool entered_ = false;  // was counted as a request
  bool sending_ = false;  // counts among its function's requests that stream
  bool cold_ = false;     // no instance was ready when it came
  bool displaced_ = false;
};

enum class Outcome {
  kOk,
  kInvalid,  // answered with 4xx: the caller's fault, no violation
  kFailed,
  kTimedOut,
  kGone,    // the client left
  kShed,    // displaced
  kBroken,  // the instance died; it gets nothing for a moment
};

struct Counters {
  uint64_t requests = 0;  // for an inference by this function
  uint64_t ok = 0;
  uint64_t invalid = 0;  // answered with 4xx
  uint64_t failed = 0;   // an error of the instance, or none to be had
  uint64_t shed = 0;     // 429
  uint64_t timed_out = 0;
  uint64_t gone = 0;         // the client left
  uint64_t late = 0;         // ok, after the SLO
  uint64_t cold_starts = 0;  // had to wait for an instance to start
  uint64_t retried = 0;
  uint64_t inferences = 0;         // asked for by answered requests
  double concurrency_seconds = 0;  // ∫ (waiting + in flight) dt
  uint64_t gaps = 0;               // between arrivals
  double gap_sum = 0, gap_squares = 0;
  Histogram latency;  // arrival → last byte, of those that are ok
  Histogram waiting;  // arrival → granted

  bool operator==(const Counters&) const = default;
};

// What one revision has done for as long as it has been in the split.
struct RevisionStats {
  wire::ModelStatistics model;  // its last_inference is not set: `last` is
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
  // `platform_token`: what callers of functions without a token of their own must bear; empty:
  // none.
  explicit Dispatcher(std::string platform_token = {})
      : platform_token_(std::move(platform_token)) {}

  // Replaces the table; waiting and running requests are not disturbed, but for those that wait for
  // a function that is there no more: they are told.
  void set_table(RoutingTable table, Time now);
  RoutingTable table() const;

  enum class Refusal { kNone, kUnknown, kUnavailable, kFull, kLate, kUnknownRevision, kDenied };
  struct Entry {
    Refusal refusal = Refusal::kNone;
    std::string why;
    Nanos timeout{0};
    Nanos retry_after{0};        // with kFull and kLate
    std::string versions;        // "1,2": those that have traffic; only for questions
    bool token_is_ours = false;  // the function wants a token: it is not for the instance
  };
  // Finds the function of a request whose head is here, and checks its token; takes no place.
  // Revision 0: the split chooses; a question goes to the revision with the largest part of the
  // traffic, so that its answer stays the same while there is a canary. Refusals: kUnknown,
  // kUnknownRevision, kDenied.
  Entry find(Waiter& waiter, std::string_view served, int revision, std::string_view token);
  // Takes a place for a request that find() found, and dispatches. Its latency counts from its
  // head's arrival. So does its deadline, but the body's coming uses up at most half of the
  // objective, and admission leaves it all of it: a client that is slow to send is served all the
  // same. Refusals: kFull, kLate,
  // kUnavailable.
  Entry enter(Waiter& waiter, Time arrived, Time now);
  // All of a streamed body has come: it holds its instance no longer than others do.
  void sent(Waiter& waiter, Time now);
  // The client has closed its sending side: it may have left, or wait for its answer. A request
  // that waits goes behind all others, and is the first to be displaced.
  void defer(Waiter& waiter);
  // The instance broke before the answer began: the same place again. Counts as retried.
  void again(Waiter& waiter, bool refused_connection, Time now);
  // Ends it, wherever it is; one that never entered counts as a request nevertheless. `inferences`
  // as the instance said; 0: one.
  void finish(Waiter& waiter, Outcome outcome, uint64_t inferences, Time now);

  // Gives instances that were down another chance. Call every 50 ms or so.
  void tick(Time now);

  std::vector<FunctionStats> stats(Time now);
  // The instances that have a request in hand, in the table or not any more. One that the table
  // gives no more requests and that is not among them will never be sent anything again.
  std::vector<std::string> busy() const;
  bool knows(std::string_view served) const;
  bool admits(std::string_view token) const;  // to what is no function's

 private:
  Entry admit(FunctionState& f, Waiter& waiter, Time now);
  static void line_up(Waiter& waiter);
  static bool displace(FunctionState& f, int revision, Time now);
  static void turn_away_all(FunctionState& f);
  void dispatch(FunctionState& f, Time now);
  static void grant(FunctionState& f, Waiter& waiter, size_t instance, Time now);
  void release(Waiter& waiter, Time now);
  void count_end(const Waiter& waiter, Outcome outcome, uint64_t inferences, Time now);

  const std::string platform_token_;
  mutable std::mutex mutex_;
  RoutingTable table_;
  std::map<std::string, std::shared_ptr<FunctionState>, std::less<>> functions_;
  std::vector<std::shared_ptr<Upstream>> leaving_;  // not in the table any more; some are busy
};

}  // namespace sluice::gateway
