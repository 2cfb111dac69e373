#include "device_model/device_model.h"

#include <algorithm>

#include "device_model/commit.h"

namespace sluice::emulator {
namespace {
template <typename Table>
std::uint32_t free_slot(const Table& table) {
  for (std::uint32_t i = 0; i < table.size(); ++i)
    if (!table[i].used) return i;
  return DeviceModel::kNone;
}
}  // namespace

void DeviceModel::reset(const DeviceSpec& spec, Ns now) {
  spec_ = spec;
  now_ = slice_began_ = now;
  device_busy_ns_ = device_sm_ns_ = 0;
  current_ = 0;
  next_ = kNone;
  contended_since_ = slice_changes_ = kNever;
  dry_since_ = now - spec.linger_ns;  // the first client waits for no other
  free_op_ = kNone;
  free_ops_ = kOps;
  ops_touched_ = streams_touched_ = 0;
  engine_op_.fill(kNone);
  seq_ = log_end_ = 0;
  busy_.fill(0);
  for (Client& client : clients_) client.used = false;
  for (Stream& stream : streams_) stream.used = false;
  for (Event& event : events_) event.used = false;
  candidates_.count = 0;
}

// --- clients, streams, events -----------------------------------------------------------------

std::uint32_t DeviceModel::add_client(std::uint32_t process, std::uint32_t sm_permille) {
  const std::uint32_t id = free_slot(clients_);
  if (id != kNone) clients_[id] = {.used = true, .process = process, .sm_permille = sm_permille};
  return id;
}

void DeviceModel::remove_client(std::uint32_t client) {
  Client& c = clients_[client];
  c.leaving = true;
  for (Event& event : events_)
    if (event.used && event.client == client) event.used = false;
  for (std::uint32_t i = 0; i < kStreams; ++i)
    if (streams_[i].used && streams_[i].client == client) close_stream(i);
  if (c.streams == 0) c.used = false;
}

void DeviceModel::abort_client(std::uint32_t client) {
  for (std::uint32_t i = 0; i < kStreams; ++i)
    while (streams_[i].used && streams_[i].client == client && streams_[i].length > 0) {
      Op& op = ops_[streams_[i].first];
      if (op.kind == OpKind::kKernel) set_sms(op, 0);
      for (std::uint32_t& running : engine_op_)
        if (running == streams_[i].first) running = kNone;
      pop(i);
    }
  candidates_.count = 0;  // some are gone; the next advance() plans anew
}

std::uint32_t DeviceModel::open_stream(std::uint32_t client, std::uint32_t group, StreamKind kind) {
  const std::uint32_t id = free_slot(streams_);
  if (id == kNone) return kNone;
  streams_touched_ = std::max(streams_touched_, id + 1);
  const std::uint32_t generation = streams_[id].generation + 1;
  streams_[id] = {.used = true,
                  .kind = kind,
                  .client = client,
                  .group = group,
                  .generation = generation,
                  .first = kNone,
                  .last = kNone,
                  .submitted = seq_,
                  .reached = seq_};
  ++clients_[client].streams;
  return id;
}

void DeviceModel::close_stream(std::uint32_t stream) {
  streams_[stream].closing = true;
  free_stream_if_drained(stream);
}

void DeviceModel::free_stream_if_drained(std::uint32_t stream) {
  Stream& s = streams_[stream];
  if (!s.closing || s.length > 0) return;
  s.used = false;
  Client& client = clients_[s.client];
  if (--client.streams == 0 && client.leaving) client.used = false;
}

std::uint32_t DeviceModel::open_event(std::uint32_t client) {
  const std::uint32_t id = free_slot(events_);
  if (id != kNone)
    events_[id] = {.used = true, .client = client, .generation = events_[id].generation + 1};
  return id;
}

void DeviceModel::close_event(std::uint32_t event) {
  events_[event].used = false;
}

void DeviceModel::set_cap(std::uint32_t client, std::uint32_t sm_permille) {
  clients_[client].sm_permille = sm_permille;
}

// --- queues -----------------------------------------------------------------------------------

DeviceModel::Op& DeviceModel::append(std::uint32_t stream, OpKind kind) {
  std::uint32_t id = free_op_;
  if (id != kNone)
    free_op_ = ops_[id].next;
  else
    id = ops_touched_++;
  --free_ops_;
  Stream& s = streams_[stream];
  ops_[id] = {.kind = kind, .stream = stream, .next = kNone, .seq = ++seq_, .left = 1};
  commit();
  (s.first == kNone ? s.first : ops_[s.last].next) = id;
  s.last = id;
  ++s.length;
  s.submitted = seq_;
  busy_[stream / 64] |= std::uint64_t{1} << stream % 64;
  return ops_[id];
}

void DeviceModel::pop(std::uint32_t stream) {
  Stream& s = streams_[stream];
  const std::uint32_t id = s.first;
  s.reached = ops_[id].seq;
  commit();
  s.first = ops_[id].next;
  commit();
  ops_[id].next = free_op_;
  free_op_ = id;
  ++free_ops_;
  if (--s.length > 0) return;
  busy_[stream / 64] &= ~(std::uint64_t{1} << stream % 64);
  free_stream_if_drained(stream);
}

void DeviceModel::launch(std::uint32_t stream, const Kernel& kernel) {
  append(stream, OpKind::kKernel).kernel = kernel;
}

void DeviceModel::copy(std::uint32_t stream, Engine engine, std::uint64_t bytes) {
  const double gbps = engine == Engine::kWithin ? spec_.memory_gbps : spec_.link_gbps;
  Op& op = append(stream, OpKind::kCopy);
  op.engine = engine;
  op.took_ns = static_cast<Ns>(static_cast<double>(bytes) / gbps);
}

void DeviceModel::wait(std::uint32_t stream, Ticket ticket) {
  append(stream, OpKind::kWait).ticket = ticket;
}

void DeviceModel::record(std::uint32_t stream, std::uint32_t event) {
  Op& op = append(stream, OpKind::kRecord);
  Event& e = events_[event];
  op.event = event;
  op.event_generation = e.generation;
  e.ever = true;
  e.done = false;
  e.at = end_of(stream);
}

Ticket DeviceModel::hold(std::uint32_t stream) {
  append(stream, OpKind::kHold);
  return end_of(stream);
}

bool DeviceModel::holds(const Stream& stream) const {
  if (stream.length == 0 || clients_[stream.client].leaving) return false;
  const Op& head = ops_[stream.first];
  return head.kind == OpKind::kHold && head.ready && !head.released;
}

bool DeviceModel::holds(Ticket hold) const {
  const Stream& s = streams_[hold.stream];
  return s.used && s.generation == hold.generation && holds(s) && ops_[s.first].seq == hold.seq;
}

void DeviceModel::release(Ticket hold) {
  if (holds(hold)) ops_[streams_[hold.stream].first].released = true;
}

Ticket DeviceModel::end_of(std::uint32_t stream) const {
  return {stream, streams_[stream].generation, streams_[stream].submitted};
}

bool DeviceModel::reached(Ticket ticket) const {
  const Stream& s = streams_[ticket.stream];
  return !s.used || s.generation != ticket.generation || s.reached >= ticket.seq;
}

DeviceModel::Recorded DeviceModel::recorded(std::uint32_t event) const {
  const Event& e = events_[event];
  return {e.ever, e.done, e.when, e.at};
}

// The truth is: which clients, streams and events are used, each stream's chain from `first` on,
// the times in its operations, and seq_.
void DeviceModel::repair() {
  std::array<bool, kOps> queued{};
  busy_.fill(0);
  for (Client& client : clients_) client.streams = 0;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    Stream& s = streams_[i];
    if (!s.used) continue;
    ++clients_[s.client].streams;
    s.length = 0;
    s.last = kNone;
    for (std::uint32_t id = s.first; id != kNone; id = ops_[id].next) {
      queued[id] = true;
      s.last = id;
      ++s.length;
    }
    if (s.length == 0) {
      s.reached = s.submitted;
      continue;
    }
    s.submitted = ops_[s.last].seq;
    s.reached = std::min(s.reached, ops_[s.first].seq - 1);
    busy_[i / 64] |= std::uint64_t{1} << i % 64;
  }
  free_op_ = kNone;
  free_ops_ = kOps - ops_touched_;
  for (std::uint32_t id = 0; id < ops_touched_; ++id) {
    if (queued[id]) continue;
    ops_[id].next = free_op_;
    free_op_ = id;
    ++free_ops_;
  }
  for (std::uint32_t& id : engine_op_)
    if (id != kNone && (!queued[id] || streams_[ops_[id].stream].first != id)) id = kNone;
  candidates_.count = 0;
  for (std::uint32_t i = 0; i < kStreams; ++i)
    if (streams_[i].used) free_stream_if_drained(i);
  for (Client& client : clients_)
    if (client.used && client.leaving && client.streams == 0) client.used = false;
}

}  // namespace sluice::emulator
