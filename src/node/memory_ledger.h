// Who holds how much of which slice's device memory (docs/design/cuda.md, memory). An account is a
// slice on one device; its holders are processes. What a process holds it may use or keep ready for
// its next allocations: the ledger does not tell. Pure; not thread-safe, like any value.
//
// hold() never takes an account over its limit. What exists although nobody asked before (a
// context, what a process had when it came back) is written down whatever the limit, and so is all
// that is held when a limit falls: then nobody gets more until enough has been given back.
#pragma once

#include <cstdint>
#include <map>

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
    Bytes context = 0;  // of each process that comes, beside what it holds
    Bytes held = 0;     // by all, contexts included
    int holders = 0;
  };

  void open(MemoryAccount account, Bytes limit, Bytes context);
  void set_limit(MemoryAccount account, Bytes limit);
  // Its holders are gone with it.
  void close(MemoryAccount account);

  // A process comes, and has used so much already. 0: there is no such account.
  MemoryHolder join(MemoryAccount account, Bytes used);
  // One that is known says so again: it has what is written here, or more.
  Bytes rejoin(MemoryHolder holder, Bytes used);
  // Wants to hold `least` at least and would like up to `most`; gives back what is above that.
  // Returns what it holds now: less than `least` is a refusal, and nothing has changed.
  Bytes hold(MemoryHolder holder, Bytes least, Bytes most);
  // All of it is free.
  void leave(MemoryHolder holder);

  const Account* find(MemoryAccount account) const;  // null: there is none
  Bytes held_by(MemoryHolder holder) const;          // 0 for one that is gone
  MemoryAccount account_of(MemoryHolder holder) const;

 private:
  struct Holder {
    MemoryAccount account = 0;
    Bytes held = 0;
  };
  void set_held(Holder& holder, Bytes held);

  std::map<MemoryAccount, Account> accounts_;
  std::map<MemoryHolder, Holder> holders_;
  MemoryHolder last_ = 0;
};

}  // namespace sluice::node
