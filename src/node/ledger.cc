#include "node/ledger.h"

#include <algorithm>
#include <set>

namespace sluice::node {
namespace {

std::string text(Share s) {
  return std::to_string(s.permille);
}

Error invalid(std::string message) {
  return {ErrorKind::kInvalid, std::move(message)};
}

bool intersect(Share a, Share a_size, Share b, Share b_size) {
  return a < b + b_size && b < a + a_size;
}

bool overlap(const Promise& a, const Promise& b) {
  return intersect(a.position.sm_begin, a.slice.sm, b.position.sm_begin, b.slice.sm) &&
         intersect(a.position.time_begin, a.slice.quota.request, b.position.time_begin,
                   b.slice.quota.request);
}

// What the device could never hold, whoever else is there.
Result<void> check_shape(const Device& d, const Slice& s) {
  const Share step = d.sm_quantum;
  if (s.sm <= kNone || s.sm > kWhole || s.sm.permille % step.permille != 0)
    return invalid("slice.sm: " + text(s.sm) + " is not a multiple of " + text(step) + " between " +
                   text(step) + " and 1000, what " + d.id + " can hold");
  const auto& [request, limit] = s.quota;
  if (request <= kNone || request > kWhole)
    return invalid("slice.request: " + text(request) + " is not between 1 and 1000");
  if (limit < request || limit > kWhole)
    return invalid("slice.limit: " + text(limit) + " is not between the request, " + text(request) +
                   ", and 1000");
  if (s.memory < 0 || s.memory > d.memory)
    return invalid("slice.memory: " + std::to_string(s.memory) + " is not between 0 and the " +
                   std::to_string(d.memory) + " bytes of " + d.id);
  return {};
}

Result<void> check_position(const Device& d, const Slice& s, const Position& p) {
  if (p.sm_begin < kNone || p.sm_begin + s.sm > kWhole ||
      p.sm_begin.permille % d.sm_quantum.permille != 0)
    return invalid("position.sm_begin: " + text(p.sm_begin) + " is not a multiple of " +
                   text(d.sm_quantum) + " between 0 and " + text(kWhole - s.sm));
  if (p.time_begin < kNone || p.time_begin + s.quota.request > kWhole)
    return invalid("position.time_begin: " + text(p.time_begin) + " is not between 0 and " +
                   text(kWhole - s.quota.request));
  return {};
}

Error no_room(const Promise& wanted) {
  return {ErrorKind::kExhausted, wanted.device + " has no room for sm " + text(wanted.slice.sm) +
                                     " × request " + text(wanted.slice.quota.request) +
                                     " beside what it has promised"};
}

}  // namespace

Ledger::Ledger(std::vector<Device> devices) : devices_(std::move(devices)) {}

const Device* Ledger::find(const DeviceId& id) const {
  const auto found = std::ranges::find(devices_, id, &Device::id);
  return found == devices_.end() ? nullptr : &*found;
}

Result<void> Ledger::check_room(const Promise& wanted, const InstanceId& but) const {
  Bytes memory = wanted.slice.memory;
  for (const auto& [id, held] : promises_) {
    if (id == but || held.device != wanted.device) continue;
    if (overlap(held, wanted))
      return Error{ErrorKind::kExhausted,
                   wanted.device + ": the rectangle at sm " + text(wanted.position.sm_begin) +
                       ", time " + text(wanted.position.time_begin) + " is promised to " + id};
    memory += held.slice.memory;
  }
  const Bytes has = find(wanted.device)->memory;
  if (memory > has)
    return Error{ErrorKind::kExhausted, wanted.device + ": " + std::to_string(wanted.slice.memory) +
                                            " bytes more would promise " + std::to_string(memory) +
                                            " of its " + std::to_string(has)};
  return {};
}

// The lowest corner where the rectangle fits: a free place that could move neither down nor left
// begins at 0 or where another ends.
std::optional<Position> Ledger::first_free(const Promise& wanted, const InstanceId& but,
                                           std::optional<Share> sm_begin) const {
  std::set<Share> sms{kNone}, times{kNone};
  for (const auto& [id, held] : promises_) {
    if (id == but || held.device != wanted.device) continue;
    sms.insert(held.position.sm_begin + held.slice.sm);
    times.insert(held.position.time_begin + held.slice.quota.request);
  }
  if (sm_begin) sms = {*sm_begin};
  Promise p = wanted;
  for (const Share sm : sms)
    for (const Share time : times) {
      p.position = {sm, time};
      if (sm + p.slice.sm > kWhole || time + p.slice.quota.request > kWhole) continue;
      if (std::ranges::none_of(promises_, [&](const auto& held) {
            return held.first != but && held.second.device == p.device && overlap(held.second, p);
          }))
        return p.position;
    }
  return std::nullopt;
}

Result<Promise> Ledger::reserve(const InstanceId& id, const DeviceId& device, const Slice& slice,
                                const std::optional<Position>& position) {
  const Device* d = find(device);
  if (d == nullptr) return invalid("device: there is no '" + device + "' on this node");
  if (promises_.contains(id)) return Error{ErrorKind::kConflict, id + " holds a slice already"};
  SLUICE_TRY(check_shape(*d, slice));
  if (position) SLUICE_TRY(check_position(*d, slice, *position));
  if (d->drained) {
    const std::string& why = d->fault.empty() ? d->set_apart : d->fault;
    return Error{
        ErrorKind::kExhausted,
        device + " is drained" + (why.empty() ? "" : " (" + why + ")") + ": it takes nothing new"};
  }
  Promise p{device, slice, position.value_or(Position{})};
  if (!position) {
    const auto free = first_free(p, id, std::nullopt);
    if (!free) return no_room(p);
    p.position = *free;
  }
  SLUICE_TRY(check_room(p, id));
  return promises_[id] = p;
}

Result<Promise> Ledger::try_change(const InstanceId& id, const Slice& slice,
                                   const std::optional<Position>& position) const {
  const auto held = promises_.find(id);
  if (held == promises_.end()) return Error{ErrorKind::kNotFound, id + " holds no slice"};
  Promise p = held->second;
  const Device& d = *find(p.device);
  if (slice.sm != p.slice.sm && !d.can_resize_sm)
    return invalid("slice.sm: a running instance's sm cannot change on " + d.id);
  SLUICE_TRY(check_shape(d, slice));
  p.slice = slice;
  if (position) {
    SLUICE_TRY(check_position(d, slice, *position));
    p.position = *position;
  } else if (!check_position(d, slice, p.position).ok() || !check_room(p, id).ok()) {
    const auto free = first_free(p, id, p.position.sm_begin);
    if (!free) return no_room(p);
    p.position = *free;
  }
  SLUICE_TRY(check_room(p, id));
  return p;
}

Result<Promise> Ledger::change(const InstanceId& id, const Slice& slice,
                               const std::optional<Position>& position) {
  SLUICE_ASSIGN(p, try_change(id, slice, position));
  return promises_[id] = p;
}

void Ledger::release(const InstanceId& id) {
  promises_.erase(id);
}

Result<void> Ledger::set_drained(const DeviceId& device, bool drained, const std::string& fault) {
  const auto found = std::ranges::find(devices_, device, &Device::id);
  if (found == devices_.end())
    return Error{ErrorKind::kNotFound, "there is no device '" + device + "' on this node"};
  if (!drained && !found->set_apart.empty())
    return Error{ErrorKind::kInvalid, device + " stays drained: " + found->set_apart};
  found->drained = drained;
  found->fault = fault;
  return {};
}

}  // namespace sluice::node
