#include "enforce/memory_ledger.h"

#include <algorithm>

#include "wire/permit_memory.h"

namespace sluice::node {
namespace {

Bytes cut(Bytes claim) {
  return std::clamp<Bytes>(claim, 0, kMostMemory);
}

// Returns what a process may hold unused: it frees memory at twice its allowed headroom.
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
  holder.guess = cut(context);
  change(holder, &Holder::held, cut(used));
  change(holder, &Holder::context, cut(context));
  return last_;
}

void MemoryLedger::expect(MemoryHolder number, Bytes unsaid) {
  const auto at = holders_.find(number);
  if (at != holders_.end()) change(at->second, &Holder::unsaid, cut(unsaid));
}

Bytes MemoryLedger::rejoin(MemoryHolder number, Bytes used) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return 0;
  Holder& holder = at->second;
  const Bytes more = std::max<Bytes>(cut(used) - holder.held, 0);
  change(holder, &Holder::held, holder.held + more);
  change(holder, &Holder::context,
         std::max(holder.context - more, std::min(holder.context, holder.guess)));
  change(holder, &Holder::unsaid, 0);
  return holder.held;
}

// Shares what is left beyond the need: each holder keeps an equal part ready, so that one process's
// headroom does not lock out its siblings near the limit.
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
    change(holder, &Holder::held, most);
  else if (need > 0 && need <= room)
    change(holder, &Holder::held,
           least + std::min(most - least, (room - need) / (1 + account.holders)));
  return holder.held;
}

// Of two successive figures the weaker counts: one may be of a moment between a driver's call and
// the report of it.
void MemoryLedger::device_says(MemoryHolder number, Bytes bytes) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return;
  Holder& holder = at->second;
  bytes = cut(bytes);
  const Bytes unused = most_headroom(accounts_.at(holder.account).limit);
  const Range now{std::max<Bytes>(bytes - holder.lately.most, 0),
                  std::max<Bytes>(bytes - std::max<Bytes>(holder.lately.least - unused, 0), 0)};
  const Range before = holder.judged.value_or(now);
  change(holder, &Holder::context,
         std::clamp(holder.context, std::min(now.least, before.least),
                    std::max(now.most, before.most)));
  change(holder, &Holder::unsaid, 0);
  holder.judged = now;
  holder.lately = {holder.held, holder.held};
}

void MemoryLedger::leave(MemoryHolder number) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return;
  Holder& holder = at->second;
  change(holder, &Holder::held, 0);
  change(holder, &Holder::context, 0);
  change(holder, &Holder::unsaid, 0);
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

Bytes MemoryLedger::context_of(MemoryHolder holder) const {
  const auto at = holders_.find(holder);
  return at != holders_.end() ? at->second.context : 0;
}

bool MemoryLedger::is_judged(MemoryHolder holder) const {
  const auto at = holders_.find(holder);
  return at != holders_.end() && at->second.judged.has_value();
}

void MemoryLedger::change(Holder& holder, Bytes Holder::*part, Bytes to) {
  accounts_.at(holder.account).held += to - holder.*part;
  holder.*part = to;
  holder.lately.widen(holder.held);
}

}  // namespace sluice::node
