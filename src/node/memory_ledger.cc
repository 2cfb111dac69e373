#include "node/memory_ledger.h"

#include <algorithm>

namespace sluice::node {
namespace {

Bytes cut(Bytes claim) {
  return std::clamp<Bytes>(claim, 0, kMostMemory);
}

}  // namespace

void MemoryLedger::open(MemoryAccount account, Bytes limit, Bytes context) {
  accounts_[account] = {.limit = cut(limit), .context = cut(context)};
}

void MemoryLedger::set_limit(MemoryAccount account, Bytes limit) {
  const auto at = accounts_.find(account);
  if (at != accounts_.end()) at->second.limit = cut(limit);
}

void MemoryLedger::close(MemoryAccount account) {
  std::erase_if(holders_, [&](const auto& entry) { return entry.second.account == account; });
  accounts_.erase(account);
}

MemoryHolder MemoryLedger::join(MemoryAccount number, Bytes used) {
  const auto at = accounts_.find(number);
  if (at == accounts_.end()) return 0;
  Account& account = at->second;
  ++account.holders;
  account.held += account.context;
  Holder& holder = holders_[++last_];
  holder.account = number;
  set_held(holder, cut(used));
  return last_;
}

Bytes MemoryLedger::rejoin(MemoryHolder number, Bytes used) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return 0;
  set_held(at->second, std::max(at->second.held, cut(used)));
  return at->second.held;
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

void MemoryLedger::leave(MemoryHolder number) {
  const auto at = holders_.find(number);
  if (at == holders_.end()) return;
  Account& account = accounts_.at(at->second.account);
  account.held -= at->second.held + account.context;
  --account.holders;
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

void MemoryLedger::set_held(Holder& holder, Bytes held) {
  accounts_.at(holder.account).held += held - holder.held;
  holder.held = held;
}

}  // namespace sluice::node
