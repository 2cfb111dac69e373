// Who holds how much of which slice's device memory (docs/design/cuda.md, memory). An account is a
// slice on one device; its holders are processes. What a process holds it may use or keep ready for
// its next allocations: the ledger does not tell. Pure; not thread-safe, like any value.
//
// hold() never takes an account over its limit. What exists although nobody asked before (a
// context, what a process had when it came back) is written down whatever the limit, and so is all
// that is held when a limit falls: then nobody gets more until enough has been given back.
//
// Beside what it holds a process has a context: what the device gives it unasked, and all else that
// nobody asks for here. Only the device knows how much (device_says), and its figure is of the
// moment before, so it is compared with the least and the most that were held since the last one.
// Who says that it holds more than it uses pays for that; a context it pays for in any case.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "model/slice.h"

namespace sluice::node {

using MemoryAccount = uint64_t;  // 0: none
using MemoryHolder = uint64_t;   // never used again

// No claim is larger: what a client says is cut to it, so that sums do not overflow.
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
  // Its holders are gone with it.
  void close(MemoryAccount account);

  // A process comes, and has used so much already; `context` is a guess, until the device says. 0:
  // there is no such account.
  MemoryHolder join(MemoryAccount account, Bytes used, Bytes context);
  // Of one that came before this ledger: up to `unsaid` more it may have, until it comes again, or
  // the device says what it has.
  void expect(MemoryHolder holder, Bytes unsaid);
  // One that is known says so again: it has what is written here, or more. What the device has
  // shown of that was taken for its context.
  Bytes rejoin(MemoryHolder holder, Bytes used);
  // Wants to hold `least` at least and would like up to `most`; gives back what is above that.
  // Returns what it holds now: less than `least` is a refusal, and nothing has changed.
  Bytes hold(MemoryHolder holder, Bytes least, Bytes most);
  // So much a process has of the device in all, at some moment since this was said last, or since
  // the process came.
  void device_says(MemoryHolder holder, Bytes bytes);
  // All of it is free.
  void leave(MemoryHolder holder);

  const Account* find(MemoryAccount account) const;  // null: there is none
  Bytes held_by(MemoryHolder holder) const;          // 0 for one that is gone
  MemoryAccount account_of(MemoryHolder holder) const;
  Bytes context_of(MemoryHolder holder) const;
  bool is_judged(MemoryHolder holder) const;  // by the device

 private:
  struct Range {
    Bytes least = 0, most = 0;

    void widen(Bytes value) { *this = {std::min(least, value), std::max(most, value)}; }
  };
  struct Holder {
    MemoryAccount account = 0;
    Bytes held = 0, context = 0, unsaid = 0;
    Bytes guess = 0;              // the context, as it came
    Range lately;                 // held since the device said something
    std::optional<Range> judged;  // the context, when it did
  };
  void change(Holder& holder, Bytes Holder::*part, Bytes to);

  std::map<MemoryAccount, Account> accounts_;
  std::map<MemoryHolder, Holder> holders_;
  MemoryHolder last_ = 0;
};

}  // namespace sluice::node
