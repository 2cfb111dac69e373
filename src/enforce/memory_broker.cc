#include "enforce/memory_broker.h"

#include <array>

#include "base/check.h"
#include "base/epoll.h"
#include "wire/permit_steps.h"

namespace sluice::node {
namespace {

constexpr int kMaxHolders = SLUICE_MEMORY_PROCESSES;  // of one account: each costs a descriptor

}  // namespace

MemoryBroker::MemoryBroker(const Clock& clock, uint32_t generation, MemoryRecord record)
    : clock_(clock),
      generation_(generation),
      deaths_(epoll_create1(EPOLL_CLOEXEC)),
      record_(std::move(record)) {
  SLUICE_CHECK(deaths_.valid(), "out of descriptors");
}

Result<MemoryAccount> MemoryBroker::open(const std::string& slice, Bytes limit, Device device) {
  SLUICE_ASSIGN(page, MemoryPage::make(generation_));
  const std::lock_guard lock(mutex_);
  const MemoryAccount account = ++last_;
  ledger_.open(account, limit);
  slices_.emplace(account, Slice{slice, std::move(device), std::move(page)});
  SLUICE_TRY(restore(account, limit));
  show(account);
  return account;
}

// Each process may have taken its part of what was left (MemoryAccount::go_alone).
Result<void> MemoryBroker::restore(MemoryAccount account, Bytes limit) {
  const std::map<MemoryRecord::Slot, Holding> before = record_.take(slices_.at(account).name);
  Bytes left = limit;
  for (const auto& [slot, h] : before) left -= h.held + h.context;
  for (const auto& [slot, h] : before) {
    Result<Fd> pidfd = h.process.pid != 0 ? open_process(h.process) : Fd();
    if (!pidfd.ok() && pidfd.error().kind != ErrorKind::kNotFound) return pidfd.error();
    if (!pidfd.ok()) {
      record_.remove(slot);
      continue;
    }
    const MemoryHolder holder = ledger_.join(account, h.held, h.context);
    SLUICE_STEP("memory: restored");
    ledger_.expect(holder, left / static_cast<Bytes>(before.size()));
    if (pidfd->valid()) SLUICE_TRY(epoll_hear(deaths_, pidfd->get(), holder));
    keep(holder, {.process = {account, h.process.pid, h.process.start_time},
                  .pidfd = std::move(*pidfd),
                  .slot = slot});
  }
  return {};
}

void MemoryBroker::forget_others() {
  const std::lock_guard lock(mutex_);
  record_.forget_others();
}

void MemoryBroker::set_limit(MemoryAccount account, Bytes limit) {
  const std::lock_guard lock(mutex_);
  ledger_.set_limit(account, limit);
  show(account);
}

void MemoryBroker::close(MemoryAccount account) {
  const std::lock_guard lock(mutex_);
  ledger_.close(account);
  slices_.erase(account);
  std::erase_if(holders_, [&](const auto& h) { return std::get<0>(h.first) == account; });
  std::erase_if(lives_, [&](const auto& entry) {
    const Life& life = entry.second;
    if (std::get<0>(life.process) != account) return false;
    record_.remove(life.slot);
    return true;
  });
}

MemoryLedger::Account MemoryBroker::look(MemoryAccount account) const {
  const std::lock_guard lock(mutex_);
  const MemoryLedger::Account* found = ledger_.find(account);
  return found != nullptr ? *found : MemoryLedger::Account{};
}

std::vector<pid_t> MemoryBroker::processes(MemoryAccount account) const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> pids;
  for (auto h = holders_.lower_bound({account, 0, 0});
       h != holders_.end() && std::get<0>(h->first) == account; ++h)
    pids.push_back(std::get<1>(h->first));
  return pids;
}

Result<MemoryBroker::Joined> MemoryBroker::join(MemoryAccount account,
                                                const ProcessIdentity& process, Fd pidfd,
                                                Bytes used) {
  const std::lock_guard lock(mutex_);
  const auto slice = slices_.find(account);
  if (slice == slices_.end())
    return Error{ErrorKind::kNotFound, "the process holds no slice of memory here"};
  SLUICE_ASSIGN(reader, slice->second.page.reader());
  const Process key{account, process.pid, process.start_time};
  const auto known = holders_.find(key);
  MemoryHolder holder = known != holders_.end() ? known->second : 0;
  if (holder != 0) {
    Life& life = lives_.at(holder);
    if (!life.pidfd.valid()) {
      SLUICE_TRY(epoll_hear(deaths_, pidfd.get(), holder));
      life.pidfd = std::move(pidfd);
    }
    ledger_.rejoin(holder, used);
    (void)write_down(holder, life);  // recorded even beyond the limit: it exists
  } else {
    SLUICE_ASSIGN(entered, enter(key, std::move(pidfd), used));
    holder = entered;
  }
  show(account);
  return Joined{holder, ledger_.held_by(holder), std::move(reader)};
}

Result<MemoryHolder> MemoryBroker::enter(const Process& process, Fd pidfd, Bytes used) {
  const MemoryAccount account = std::get<0>(process);
  if (ledger_.find(account)->holders >= kMaxHolders)
    return Error{ErrorKind::kExhausted, "this slice has " + std::to_string(kMaxHolders) +
                                            " processes with memory; no more are served"};
  const auto context = contexts_.find(slices_.at(account).device);
  const MemoryHolder holder =
      ledger_.join(account, used, context != contexts_.end() ? context->second : 0);
  Life life{.process = process, .pidfd = std::move(pidfd), .heard_of = clock_.now()};
  hear_device(holder, life);
  SLUICE_STEP("memory: joined");
  const Result<void> heard = epoll_hear(deaths_, life.pidfd.get(), holder);
  const Result<MemoryRecord::Slot> slot =
      heard.ok() ? record_.add(holding(holder, life)) : Result<MemoryRecord::Slot>(heard.error());
  SLUICE_STEP("memory: written");
  if (!slot.ok()) {
    ledger_.leave(holder);
    return slot.error();
  }
  life.slot = *slot;
  keep(holder, std::move(life));
  return holder;
}

void MemoryBroker::keep(MemoryHolder holder, Life life) {
  holders_.emplace(life.process, holder);
  lives_.emplace(holder, std::move(life));
}

Holding MemoryBroker::holding(MemoryHolder holder, const Life& life) const {
  const auto& [account, pid, start_time] = life.process;
  return {.slice = slices_.at(account).name,
          .process = {.pid = pid, .start_time = start_time},
          .held = ledger_.held_by(holder),
          .context = ledger_.context_of(holder)};
}

Result<void> MemoryBroker::write_down(MemoryHolder holder, const Life& life) {
  return record_.write(life.slot, holding(holder, life));
}

bool MemoryBroker::may_answer(MemoryHolder holder) {
  const std::lock_guard lock(mutex_);
  const auto at = lives_.find(holder);
  if (at == lives_.end()) return true;
  Life& life = at->second;
  const auto& [account, pid, start_time] = life.process;
  const Device& device = slices_.at(account).device;
  if (device == nullptr || pid == 0 || contexts_.contains(device) || !device->memory(pid))
    return true;
  hear_device(holder, life);
  if (ledger_.is_judged(holder)) {
    (void)write_down(holder, life);
    learn_contexts();
    return true;
  }
  const Time now = clock_.now();
  return now >= patience_ends_.try_emplace(device, now + kFirstFigure).first->second;
}

// Memory is recorded before it is lent.
std::optional<Bytes> MemoryBroker::hold(MemoryHolder holder, Bytes least, Bytes most) {
  const std::lock_guard lock(mutex_);
  const MemoryAccount account = ledger_.account_of(holder);
  if (account == 0) return std::nullopt;
  const Bytes before = ledger_.held_by(holder);
  Bytes held = ledger_.hold(holder, least, most);
  SLUICE_STEP("memory: lent");
  if (held != before && !write_down(holder, lives_.at(holder)).ok() && held > before)
    held = ledger_.hold(holder, 0, before);
  SLUICE_STEP("memory: lent and written");
  show(account);
  return held;
}

void MemoryBroker::reap() {
  std::array<epoll_event, 64> events;
  const int n = epoll_wait(deaths_.get(), events.data(), events.size(), 0);
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < n; ++i) {
    const auto life = lives_.find(events[i].data.u64);
    if (life == lives_.end()) continue;  // meanwhile closed with its account
    const Process process = life->second.process;
    ledger_.leave(life->first);
    SLUICE_STEP("memory: left");
    record_.remove(life->second.slot);
    holders_.erase(process);
    lives_.erase(life);
    show(std::get<0>(process));
  }
}

void MemoryBroker::hear_devices() {
  const std::lock_guard lock(mutex_);
  for (auto& [holder, life] : lives_) {
    const Bytes before = ledger_.context_of(holder);
    hear_device(holder, life);
    if (ledger_.context_of(holder) != before) (void)write_down(holder, life);
  }
  learn_contexts();
  for (const auto& [account, slice] : slices_) show(account);
}

// Figures from before the process's last message say nothing about what it holds since. Those from
// before it could reach us say nothing about what it took alone.
void MemoryBroker::hear_device(MemoryHolder holder, Life& life) {
  const auto& [account, pid, start_time] = life.process;
  const Device& device = slices_.at(account).device;
  if (device == nullptr || pid == 0) return;
  const std::optional<DeviceMemory> memory = device->memory(pid);
  const bool is_news = memory && life.heard_of && memory->at >= *life.heard_of;
  if (is_news) ledger_.device_says(holder, memory->bytes);
  if (is_news || !life.heard_of) life.heard_of = clock_.now();
}

// Learns the least, so that one process's uncounted memory is not charged to the others.
void MemoryBroker::learn_contexts() {
  std::map<Device, Bytes> learned;
  for (const auto& [holder, life] : lives_) {
    if (!ledger_.is_judged(holder)) continue;
    const Bytes context = ledger_.context_of(holder);
    const auto [at, is_first] =
        learned.try_emplace(slices_.at(std::get<0>(life.process)).device, context);
    if (!is_first) at->second = std::min(at->second, context);
  }
  for (const auto& [device, context] : learned) contexts_.insert_or_assign(device, context);
}

void MemoryBroker::show(MemoryAccount account) {
  const auto slice = slices_.find(account);
  if (slice != slices_.end()) slice->second.page.show(*ledger_.find(account));
}

}  // namespace sluice::node
