// Which process holds how much of which slice's device memory (docs/design/cuda.md, memory). An
// account is a slice on one device; its holders are processes. A process may use what it holds, or
// keep it ready for its next allocations: the ledger does not distinguish. Pure; not thread-safe,
// like any value.
//
// hold() never takes an account over its limit. Memory that exists without having been asked for is
// recorded whatever the limit (a context; what a process had when it came back). So is all that is
// held when a limit falls: then no process gets more until enough is freed.
//
// Beside what it holds a process has a context: memory that the device gives it unasked, and all
// else that is not asked for here. Only the device knows its size (device_says). The device's
// figure is of an earlier moment, so it is compared with the least and the most held since the last
// one. A process that reports to hold more than it uses pays for that; it pays for a context in any
// case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "model/slice.h"

namespace sluice::node {

using MemoryAccount = uint64_t;  // 0: none
using MemoryHolder = uint64_t;   // never reused

// The largest claim: a larger one is cut to it, so that sums do not overflow.
inline constexpr Bytes kMostMemory = Bytes{1} << 48;

class MemoryLedger {
 public:
  struct Account {
    Bytes limit = 0;
    Bytes held = 0;  // by all, contexts included
    int holders = 0;
  };

  void open(MemoryAccount account, Bytes limit);
  void set_limit(MemoryAccount account, Bytes limit);
  // Its holders end with it.
  void close(MemoryAccount account);

  // A new process, which has used so much already. `context` is a guess, until the device reports.
  // Returns 0 if there is no such account.
  MemoryHolder join(MemoryAccount account, Bytes used, Bytes context);
  // For a process from before this ledger: it may have up to `unsaid` more, until it joins again or
  // the device reports what it has.
  void expect(MemoryHolder holder, Bytes unsaid);
  // A known process joins again: it has what is recorded here, or more. The part of that which the
  // device has shown was taken for its context.
  Bytes rejoin(MemoryHolder holder, Bytes used);
  // Asks to hold at least `least` and up to `most`, and frees what is above that. Returns what the
  // process holds now. Less than `least` is a refusal, and nothing has changed.
  Bytes hold(MemoryHolder holder, Bytes least, Bytes most);
  // The device's figure: the process has so much in all, at some moment since the last figure, or
  // since the process joined.
  void device_says(MemoryHolder holder, Bytes bytes);
  // Frees all of it.
  void leave(MemoryHolder holder);

  const Account* find(MemoryAccount account) const;  // null: there is none
  Bytes held_by(MemoryHolder holder) const;          // 0 if it is gone
  MemoryAccount account_of(MemoryHolder holder) const;
  Bytes context_of(MemoryHolder holder) const;
  bool is_judged(MemoryHolder holder) const;  // measured by the device

 private:
  struct Range {
    Bytes least = 0, most = 0;

    void widen(Bytes value) { *this = {std::min(least, value), std::max(most, value)}; }
  };
  struct Holder {
    MemoryAccount account = 0;
    Bytes held = 0, context = 0, unsaid = 0;
    Bytes guess = 0;              // of the context, at the join
    Range lately;                 // held since the device's last figure
    std::optional<Range> judged;  // the context by that figure
  };
  void change(Holder& holder, Bytes Holder::*part, Bytes to);

  std::map<MemoryAccount, Account> accounts_;
  std::map<MemoryHolder, Holder> holders_;
  MemoryHolder last_ = 0;
};

}  // namespace sluice::node
