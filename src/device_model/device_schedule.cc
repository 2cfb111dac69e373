// How the device runs its streams' work: what is ready, whose slice it is, how many SMs and
// how much bandwidth each kernel is granted, and what ends next.
#include <algorithm>
#include <bit>
#include <cmath>

#include "device_model/device_model.h"

namespace sluice::emulator {

template <typename F>
void DeviceModel::for_busy_streams(F&& visit) const {
  for (std::uint32_t word = 0; word * 64 < streams_touched_; ++word)
    for (std::uint64_t bits = busy_[word]; bits != 0; bits &= bits - 1)
      visit(word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits)));
}

// --- what is ready ----------------------------------------------------------------------------

// A legacy stream's work waits for all blocking streams of its group that were submitted before it,
// and they for its.
bool DeviceModel::blocked(const Stream& stream, const Op& head) const {
  if (stream.kind == StreamKind::kNonBlocking) return false;
  bool waits = false;
  for_busy_streams([&](std::uint32_t other) {
    const Stream& o = streams_[other];
    if (o.client != stream.client || o.group != stream.group) return;
    if (o.kind == StreamKind::kNonBlocking) return;
    if ((o.kind == StreamKind::kLegacy) == (stream.kind == StreamKind::kLegacy)) return;
    waits = waits || ops_[o.first].seq < head.seq;
  });
  return waits;
}

// Lets waits and records at the heads of streams pass. True: something did, so others may follow.
bool DeviceModel::settle() {
  bool moved = false;
  for_busy_streams([&](std::uint32_t id) {
    Stream& stream = streams_[id];
    while (stream.length > 0) {
      Op& head = ops_[stream.first];
      if (!head.ready) {
        if (blocked(stream, head)) return;
        head.ready = true;
        head.ready_ns = now_;
      }
      if (head.kind == OpKind::kKernel || head.kind == OpKind::kCopy) return;
      if (head.kind == OpKind::kWait && !reached(head.ticket)) return;
      if (holds(stream)) return;
      if (head.kind == OpKind::kRecord) {
        Event& event = events_[head.event];
        if (event.used && event.generation == head.event_generation && event.at.seq == head.seq) {
          event.done = true;
          event.when = now_;
        }
      }
      pop(id);
      moved = true;
    }
  });
  return moved;
}

bool DeviceModel::held() const {
  bool any = false;
  for_busy_streams([&](std::uint32_t id) { any = any || holds(streams_[id]); });
  return any;
}

void DeviceModel::collect(Candidates& out) {
  out.count = 0;
  for_busy_streams([&](std::uint32_t id) {
    const Op& head = ops_[streams_[id].first];
    if (head.ready && head.kind == OpKind::kKernel) out.op[out.count++] = streams_[id].first;
  });
  std::sort(out.op.begin(), out.op.begin() + out.count, [this](std::uint32_t a, std::uint32_t b) {
    const Op &left = ops_[a], &right = ops_[b];
    return left.ready_ns != right.ready_ns ? left.ready_ns < right.ready_ns : left.seq < right.seq;
  });
}

// --- what runs, on how much -------------------------------------------------------------------

void DeviceModel::begin_slice(std::uint32_t client) {
  current_ = client;
  next_ = kNone;
  slice_began_ = now_;
  contended_since_ = kNever;
}

// A slice is over at the first multiple of its length since its client was switched to at which
// another client waits.
Ns DeviceModel::end_of_slice() const {
  const Ns slices = (contended_since_ - slice_began_) / spec_.slice_ns + 1;
  return slice_began_ + slices * spec_.slice_ns;
}

// Returns the client after the current one, by number, that has work; kNone if no other has.
std::uint32_t DeviceModel::next_client(const Candidates& candidates, bool& current_has_work) const {
  const auto distance = [this](std::uint32_t client) {
    return (client + kClients - current_ - 1) % kClients;
  };
  std::uint32_t next = kNone;
  current_has_work = false;
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    const std::uint32_t client = streams_[ops_[candidates.op[i]].stream].client;
    if (client == current_)
      current_has_work = true;
    else if (next == kNone || distance(client) < distance(next))
      next = client;
  }
  return next;
}

// Without sharing: decides whose slice it is, and when that may change.
void DeviceModel::take_slices(const Candidates& candidates) {
  if (spec_.shared) return;
  if (next_ != kNone && now_ < slice_changes_) return;
  if (next_ != kNone) begin_slice(next_);
  for (;;) {
    bool has_work = false;
    const std::uint32_t next = next_client(candidates, has_work);
    dry_since_ = has_work ? kNever : std::min(dry_since_, now_);
    contended_since_ = next == kNone ? kNever : std::min(contended_since_, now_);
    slice_changes_ = next == kNone ? kNever : end_of_slice();
    if (next != kNone && !has_work)
      slice_changes_ = std::min(slice_changes_, dry_since_ + spec_.linger_ns);
    if (now_ < slice_changes_) return;
    next_ = next;
    slice_changes_ = now_ + spec_.switch_ns;
    if (spec_.switch_ns > 0) return;
    begin_slice(next);
  }
}

void DeviceModel::write_log(const Op& op, bool last) {
  log_[log_end_ % kLog] = {op.begin_ns,        now_,   clients_[streams_[op.stream].client].process,
                           op.kernel.function, op.sms, last};
  ++log_end_;
}

void DeviceModel::set_sms(Op& op, std::uint32_t sms) {
  if (op.sms == sms) return;
  if (op.sms > 0) {
    op.left -= static_cast<double>(now_ - op.since_ns) / static_cast<double>(op.took_ns);
    op.since_ns = now_;
    if (now_ > op.begin_ns)
      log_[log_end_++ % kLog] = {
          op.begin_ns,        now_,   clients_[streams_[op.stream].client].process,
          op.kernel.function, op.sms, 0};
  }
  op.sms = sms;
  op.begin_ns = op.since_ns = now_;
  op.took_ns = 0;
}

// It takes `took_ns` as a whole from now on.
void DeviceModel::set_pace(Op& op, Ns took_ns) {
  took_ns = std::max<Ns>(took_ns, 1);
  if (op.took_ns == took_ns) return;
  if (op.took_ns > 0)
    op.left -= static_cast<double>(now_ - op.since_ns) / static_cast<double>(op.took_ns);
  op.since_ns = now_;
  op.took_ns = took_ns;
  op.end_ns =
      now_ + std::max<Ns>(0, std::llround(std::max(op.left, 0.0) * static_cast<double>(took_ns)));
}

std::uint32_t DeviceModel::cap(const Client& client) const {
  return spec_.shared ? std::max(1U, spec_.sms * client.sm_permille / 1000) : spec_.sms;
}

void DeviceModel::grant_sms(const Candidates& candidates) {
  for (std::uint32_t i = 0; i < candidates.count; ++i) client_of(candidates, i).granted = 0;
  if (spec_.shared && spec_.block_wait > 0) {
    find_free_blocks(candidates);
    grant_sms_fairly(candidates);
  } else {
    grant_sms_in_order(candidates);
  }
}

void DeviceModel::grant_sms_in_order(const Candidates& candidates) {
  std::uint32_t free = spec_.sms;
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    Op& op = ops_[candidates.op[i]];
    const std::uint32_t id = streams_[op.stream].client;
    Client& client = clients_[id];
    std::uint32_t give = 0;
    if (spec_.shared || (id == current_ && next_ == kNone)) {
      give = std::min({free, width(op), cap(client) - std::min(cap(client), client.granted)});
      free -= give;
      if (op.kernel.together && give < std::min(op.kernel.blocks, spec_.sms))
        give = free = 0;  // those behind it wait with it, or it would wait for ever
    }
    client.granted += give;
    set_sms(op, give);
  }
}

// A kernel that does not fit beside its neighbours' kernels waits for the end of about one of their
// blocks, by chance half as long or half as long again.
void DeviceModel::find_free_blocks(const Candidates& candidates) {
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    Op& op = ops_[candidates.op[i]];
    if (op.starts_ns != 0) continue;
    std::uint32_t taken = 0;
    Ns block = 0;
    for (std::uint32_t j = 0; j < candidates.count; ++j) {
      const Op& other = ops_[candidates.op[j]];
      if (other.starts_ns == 0 || streams_[other.stream].client == streams_[op.stream].client)
        continue;
      taken += std::min(width(other), cap(client_of(candidates, j)));
      block = std::max(block, other.kernel.wave_ns);
    }
    op.starts_ns = std::max<Ns>(now_, 1);
    if (taken + std::min(width(op), cap(client_of(candidates, i))) <= spec_.sms) continue;
    const std::uint64_t chance = op.seq * 0x9e3779b97f4a7c15U >> 54;  // of 1024, by golden section
    op.starts_ns += block * spec_.block_wait / 1000 * static_cast<Ns>(512 + chance) / 1024;
  }
}

// Max–min fair: the narrowest kernel first, each at most an equal part of what is left.
void DeviceModel::grant_sms_fairly(const Candidates& candidates) {
  Candidates& order = running_;
  order.count = 0;
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    if (ops_[candidates.op[i]].starts_ns <= now_)
      order.op[order.count++] = candidates.op[i];
    else
      set_sms(ops_[candidates.op[i]], 0);
  }
  std::sort(order.op.begin(), order.op.begin() + order.count,
            [this](std::uint32_t a, std::uint32_t b) {
              const auto left = width(ops_[a]), right = width(ops_[b]);
              return left != right ? left < right : ops_[a].seq < ops_[b].seq;
            });
  std::uint32_t free = spec_.sms;
  for (std::uint32_t i = 0; i < order.count; ++i) {
    Op& op = ops_[order.op[i]];
    Client& client = client_of(order, i);
    std::uint32_t give = std::min({std::max(free / (order.count - i), std::min(free, 1U)),
                                   width(op), cap(client) - std::min(cap(client), client.granted)});
    if (op.kernel.together && give < std::min(op.kernel.blocks, spec_.sms)) give = 0;
    free -= give;
    client.granted += give;
    set_sms(op, give);
  }
}

void DeviceModel::grant_bandwidth(const Candidates& candidates) {
  const auto demand = [this](const Op& op) {
    return op.kernel.bandwidth * static_cast<double>(op.sms) / std::min(width(op), spec_.sms);
  };
  // Max–min fair: a stream that asks for no more than an equal part of what is left gets it.
  double fair = 0, before = -1;
  while (fair != before) {
    before = fair;
    double taken = 0;
    std::uint32_t hungry = 0;
    for (std::uint32_t i = 0; i < candidates.count; ++i) {
      const double want = demand(ops_[candidates.op[i]]);
      if (want <= fair)
        taken += want;
      else
        ++hungry;
    }
    if (hungry > 0) fair = (1000 - taken) / hungry;
  }
  std::uint32_t granted = 0;
  for (std::uint32_t i = 0; i < candidates.count; ++i) granted += ops_[candidates.op[i]].sms;
  for (std::uint32_t i = 0; i < candidates.count; ++i) {
    Op& op = ops_[candidates.op[i]];
    if (op.sms == 0) continue;
    const Ns waves = (op.kernel.blocks + op.sms - 1) / op.sms;
    const double want = demand(op);
    double slower = want > fair ? want / fair : 1;
    if (spec_.slowdown > 0) {
      const double others = granted - client_of(candidates, i).granted;
      slower *= 1 + spec_.slowdown / 1000.0 * others / spec_.sms;
    }
    set_pace(op, std::llround(static_cast<double>(waves * op.kernel.wave_ns) * slower));
  }
}

void DeviceModel::start_copies() {
  for_busy_streams([this](std::uint32_t id) {
    const std::uint32_t op_id = streams_[id].first;
    Op& op = ops_[op_id];
    if (!op.ready || op.kind != OpKind::kCopy) return;
    std::uint32_t& running = engine_op_[static_cast<std::size_t>(op.engine)];
    // Of those that are ready now, the one submitted first.
    if (running != kNone && !(ops_[running].end_ns == -1 && op.seq < ops_[running].seq)) return;
    running = op_id;
    op.end_ns = -1;
  });
  for (const std::uint32_t id : engine_op_)
    if (id != kNone && ops_[id].end_ns == -1) ops_[id].end_ns = now_ + ops_[id].took_ns;
}

void DeviceModel::plan() {
  collect(candidates_);
  take_slices(candidates_);
  grant_sms(candidates_);
  grant_bandwidth(candidates_);
  start_copies();
}

// --- time -------------------------------------------------------------------------------------

std::optional<Ns> DeviceModel::next_change() const {
  std::optional<Ns> next;
  const auto consider = [&next](Ns at) { next = next ? std::min(*next, at) : at; };
  for (std::uint32_t i = 0; i < candidates_.count; ++i)
    if (const Op& op = ops_[candidates_.op[i]]; op.sms > 0)
      consider(op.end_ns);
    else if (op.starts_ns > now_)
      consider(op.starts_ns);
  for (const std::uint32_t id : engine_op_)
    if (id != kNone) consider(ops_[id].end_ns);
  if (slice_changes_ != kNever) consider(slice_changes_);
  return next;
}

void DeviceModel::account(Ns until) {
  const Ns passed = until - now_;
  if (passed == 0) return;
  bool any = false;
  for (std::uint32_t i = 0; i < candidates_.count; ++i) {
    const Op& op = ops_[candidates_.op[i]];
    if (op.sms == 0) continue;
    any = true;
    Client& client = clients_[streams_[op.stream].client];
    client.usage.sm_ns += passed * op.sms;
    device_sm_ns_ += passed * op.sms;
    if (client.accounted_ns != until) client.usage.busy_ns += passed;
    client.accounted_ns = until;
  }
  if (any) device_busy_ns_ += passed;
}

void DeviceModel::finish(Ns at) {
  now_ = at;
  for (std::uint32_t i = 0; i < candidates_.count; ++i) {
    const Op& op = ops_[candidates_.op[i]];
    if (op.sms == 0 || op.end_ns > at) continue;
    log_[log_end_++ % kLog] = {
        op.begin_ns,        at,     clients_[streams_[op.stream].client].process,
        op.kernel.function, op.sms, 1};
    pop(op.stream);
  }
  for (std::uint32_t& id : engine_op_) {
    if (id == kNone || ops_[id].end_ns > at) continue;
    pop(ops_[id].stream);
    id = kNone;
  }
}

void DeviceModel::advance(Ns now) {
  if (now < now_) return;
  for (;;) {
    while (settle()) {
    }
    plan();
    const std::optional<Ns> next = next_change();
    if (!next || *next > now) break;
    account(*next);
    finish(*next);
  }
  account(now);
  now_ = now;
}

}  // namespace sluice::emulator
