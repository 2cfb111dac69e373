#include "node/memory_desk.h"

#include <sys/epoll.h>

#include <array>

#include "base/check.h"

namespace sluice::node {
namespace {

constexpr int kMaxHolders = SLUICE_MEMORY_PROCESSES;  // of one account: each costs a descriptor

}  // namespace

MemoryDesk::MemoryDesk(const Clock& clock, uint32_t generation)
    : clock_(clock), generation_(generation), deaths_(epoll_create1(EPOLL_CLOEXEC)) {
  SLUICE_CHECK(deaths_.valid(), "out of descriptors");
}

Result<MemoryAccount> MemoryDesk::open(Bytes limit, Device device) {
  SLUICE_ASSIGN(page, MemoryPage::make(generation_));
  const std::lock_guard lock(mutex_);
  const MemoryAccount account = ++last_;
  ledger_.open(account, limit);
  pages_.emplace(account, std::move(page));
  devices_.emplace(account, std::move(device));
  show(account);
  return account;
}

void MemoryDesk::set_limit(MemoryAccount account, Bytes limit) {
  const std::lock_guard lock(mutex_);
  ledger_.set_limit(account, limit);
  show(account);
}

void MemoryDesk::close(MemoryAccount account) {
  const std::lock_guard lock(mutex_);
  ledger_.close(account);
  pages_.erase(account);
  devices_.erase(account);
  std::erase_if(holders_, [&](const auto& h) { return std::get<0>(h.first) == account; });
  std::erase_if(lives_, [&](const auto& l) { return std::get<0>(l.second.process) == account; });
}

MemoryLedger::Account MemoryDesk::look(MemoryAccount account) const {
  const std::lock_guard lock(mutex_);
  const MemoryLedger::Account* found = ledger_.find(account);
  return found != nullptr ? *found : MemoryLedger::Account{};
}

std::vector<pid_t> MemoryDesk::processes(MemoryAccount account) const {
  const std::lock_guard lock(mutex_);
  std::vector<pid_t> pids;
  for (auto h = holders_.lower_bound({account, 0, 0});
       h != holders_.end() && std::get<0>(h->first) == account; ++h)
    pids.push_back(std::get<1>(h->first));
  return pids;
}

Result<MemoryDesk::Joined> MemoryDesk::join(MemoryAccount account, const ProcessIdentity& process,
                                            Fd pidfd, Bytes used) {
  const std::lock_guard lock(mutex_);
  const auto page = pages_.find(account);
  if (page == pages_.end())
    return Error{ErrorKind::kNotFound, "the process holds no slice of memory here"};
  SLUICE_ASSIGN(reader, page->second.reader());
  const Process key{account, process.pid, process.start_time};
  const auto known = holders_.find(key);
  MemoryHolder holder = known != holders_.end() ? known->second : 0;
  if (holder != 0) {
    ledger_.rejoin(holder, used);
  } else {
    if (ledger_.find(account)->holders >= kMaxHolders)
      return Error{ErrorKind::kExhausted, "this slice has " + std::to_string(kMaxHolders) +
                                              " processes with memory; no more are served"};
    const auto context = contexts_.find(devices_.at(account));
    holder = ledger_.join(account, used, context != contexts_.end() ? context->second : 0);
    epoll_event death{.events = EPOLLIN, .data = {.u64 = holder}};
    SLUICE_CHECK(epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, pidfd.get(), &death) == 0, "epoll_ctl");
    holders_.emplace(key, holder);
    Life life{key, std::move(pidfd), clock_.now()};
    hear_device(holder, life);
    lives_.emplace(holder, std::move(life));
  }
  show(account);
  return Joined{holder, ledger_.held_by(holder), std::move(reader)};
}

std::optional<Bytes> MemoryDesk::hold(MemoryHolder holder, Bytes least, Bytes most) {
  const std::lock_guard lock(mutex_);
  const MemoryAccount account = ledger_.account_of(holder);
  if (account == 0) return std::nullopt;
  const Bytes held = ledger_.hold(holder, least, most);
  show(account);
  return held;
}

void MemoryDesk::bury() {
  std::array<epoll_event, 64> events;
  const int n = epoll_wait(deaths_.get(), events.data(), events.size(), 0);
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < n; ++i) {
    const auto life = lives_.find(events[i].data.u64);
    if (life == lives_.end()) continue;  // closed with its account, meanwhile
    const Process process = life->second.process;
    ledger_.leave(life->first);
    holders_.erase(process);
    lives_.erase(life);
    show(std::get<0>(process));
  }
}

void MemoryDesk::hear_devices() {
  const std::lock_guard lock(mutex_);
  for (auto& [holder, life] : lives_) hear_device(holder, life);
  learn_contexts();
  for (const auto& [account, page] : pages_) show(account);
}

// Figures of before the process was last heard of say nothing about what it holds since.
void MemoryDesk::hear_device(MemoryHolder holder, Life& life) {
  const Device& device = devices_.at(std::get<0>(life.process));
  if (device == nullptr) return;
  const std::optional<DeviceMemory> memory = device->memory(std::get<1>(life.process));
  if (!memory || memory->at < life.heard_of) return;
  ledger_.device_says(holder, memory->bytes);
  life.heard_of = clock_.now();
}

// The least: who uses memory that nobody counts must not make others pay for as much.
void MemoryDesk::learn_contexts() {
  std::map<Device, Bytes> learned;
  for (const auto& [holder, life] : lives_)
    if (const std::optional<Bytes> context = ledger_.context_of(holder)) {
      const auto [at, is_first] =
          learned.try_emplace(devices_.at(std::get<0>(life.process)), *context);
      if (!is_first) at->second = std::min(at->second, *context);
    }
  for (const auto& [device, context] : learned) contexts_.insert_or_assign(device, context);
}

void MemoryDesk::show(MemoryAccount account) {
  const auto page = pages_.find(account);
  if (page != pages_.end()) page->second.show(*ledger_.find(account));
}

}  // namespace sluice::node
