#include "node/memory_ledger.h"

#include <algorithm>

#include "wire/permit_memory.h"

namespace sluice::node {
namespace {

Bytes cut(Bytes claim) {
  return std::clamp<Bytes>(claim, 0, kMostMemory);
}

// What a process may hold and not use: it gives back when its headroom is twice what it may be.
Bytes most_headroom(Bytes limit) {
  return 2 * std::min<Bytes>(SLUICE_HEADROOM_BYTES, limit / SLUICE_HEADROOM_SHARE);
}

}  // namespace

void MemoryLedger::open(MemoryAccount account, Bytes limit) {
  accounts_[account] = {.limit = cut(limit)};
}

void MemoryLedger::set_limit(MemoryAccount account, Bytes limit) {
  const auto at = accounts_.find(account);
  if (at != accounts_.end()) at->second.limit = cut(limit);
}

void MemoryLedger::close(MemoryAccount account) {
  std::erase_if(holders_, [&](const auto& entry) { return entry.second.account == account; });
  accounts_.erase(account);
}

MemoryHolder MemoryLedger::join(MemoryAccount number, Bytes used, Bytes context) {
  const auto at = accounts_.find(number);
  if (at == accounts_.end()) return 0;
  ++at->second.holders;
  Holder& holder = holders_[++last_];
  holder.account = number;
  holder.lately = {cut(used), cut(used)};
  set_held(holder, cut(used));
  set_context(holder, cut(context));
  return last_;
}

Bytes MemoryLedger::rejoin(MemoryHolder number, Bytes used) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return 0;
  Holder& holder = at->second;
  const Bytes more = std::max<Bytes>(cut(used) - holder.held, 0);
  set_held(holder, holder.held + more);
  set_context(holder, std::max<Bytes>(holder.context - more, 0));
  return holder.held;
}

// What is left beyond the need is not given to the first who asks: it keeps a part ready as large
// as each other's, so that one process's headroom does not lock out its siblings near the limit.
Bytes MemoryLedger::hold(MemoryHolder number, Bytes least, Bytes most) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return 0;
  Holder& holder = at->second;
  least = cut(least);
  most = std::max(cut(most), least);
  const Account& account = accounts_.at(holder.account);
  const Bytes room = std::max<Bytes>(account.limit - account.held, 0);
  const Bytes need = least - holder.held;
  if (most < holder.held)
    set_held(holder, most);
  else if (need > 0 && need <= room)
    set_held(holder, least + std::min(most - least, (room - need) / (1 + account.holders)));
  return holder.held;
}

// Of two figures in a row the weaker counts: one may be of a moment between a driver's call and
// what was said of it.
void MemoryLedger::device_says(MemoryHolder number, Bytes bytes) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return;
  Holder& holder = at->second;
  bytes = cut(bytes);
  const Bytes unused = most_headroom(accounts_.at(holder.account).limit);
  const Range now{std::max<Bytes>(bytes - holder.lately.most, 0),
                  std::max<Bytes>(bytes - std::max<Bytes>(holder.lately.least - unused, 0), 0)};
  const Range before = holder.judged.value_or(now);
  set_context(holder, std::clamp(holder.context, std::min(now.least, before.least),
                                 std::max(now.most, before.most)));
  holder.judged = now;
  holder.lately = {holder.held, holder.held};
}

void MemoryLedger::leave(MemoryHolder number) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return;
  Holder& holder = at->second;
  set_held(holder, 0);
  set_context(holder, 0);
  --accounts_.at(holder.account).holders;
  holders_.erase(at);
}

const MemoryLedger::Account* MemoryLedger::find(MemoryAccount account) const {
  const auto at = accounts_.find(account);
  return at != accounts_.end() ? &at->second : nullptr;
}

Bytes MemoryLedger::held_by(MemoryHolder holder) const {
  const auto at = holders_.find(holder);
  return at != holders_.end() ? at->second.held : 0;
}

MemoryAccount MemoryLedger::account_of(MemoryHolder holder) const {
  const auto at = holders_.find(holder);
  return at != holders_.end() ? at->second.account : 0;
}

std::optional<Bytes> MemoryLedger::context_of(MemoryHolder holder) const {
  const auto at = holders_.find(holder);
  if (at == holders_.end() || !at->second.judged) return std::nullopt;
  return at->second.context;
}

void MemoryLedger::set_held(Holder& holder, Bytes held) {
  accounts_.at(holder.account).held += held - holder.held;
  holder.held = held;
  holder.lately.widen(held);
}

void MemoryLedger::set_context(Holder& holder, Bytes context) {
  accounts_.at(holder.account).held += context - holder.context;
  holder.context = context;
}

}  // namespace sluice::node
