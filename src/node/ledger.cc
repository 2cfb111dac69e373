#include "node/ledger.h"

#include <algorithm>
#include <set>

#include "model/quantity.h"

namespace sluice::node {
namespace {

std::string text(Share s) {
  return format_share(s);
}

Error invalid(std::string message) {
  return {ErrorKind::kInvalid, std::move(message)};
}

bool intersect(Share a, Share a_size, Share b, Share b_size) {
  return a < b + b_size && b < a + a_size;
}

bool overlap(const Part& a, const Part& b) {
  return intersect(a.position.sm_begin, a.slice.sm, b.position.sm_begin, b.slice.sm) &&
         intersect(a.position.time_begin, a.slice.quota.request, b.position.time_begin,
                   b.slice.quota.request);
}

// Checks what the device could never hold, even when empty.
Result<void> check_shape(const Device& d, const Slice& s) {
  const Share step = d.sm_quantum;
  if (s.sm <= kNone || s.sm > kWhole || s.sm.permille % step.permille != 0)
    return invalid("slice.sm: " + text(s.sm) + " is not a multiple of " + text(step) + " between " +
                   text(step) + " and 100%, what " + d.id + " can hold");
  const auto& [request, limit] = s.quota;
  if (request <= kNone || request > kWhole)
    return invalid("slice.request: " + text(request) + " is not between 0.1% and 100%");
  if (limit < request || limit > kWhole)
    return invalid("slice.limit: " + text(limit) + " is not between the request, " + text(request) +
                   ", and 100%");
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

Error no_room(const Part& wanted) {
  return {ErrorKind::kExhausted, wanted.device + " has no room for sm " + text(wanted.slice.sm) +
                                     " × request " + text(wanted.slice.quota.request) +
                                     " beside what it has promised"};
}

// For an instance of several parts it names the refused one.
Error refusal(const std::vector<PartRequest>& all, const PartRequest& refused, const Error& why) {
  return all.size() == 1 ? why : within("the part on " + refused.device, why);
}

std::string devices_of(const Parts& parts) {
  std::string text;
  for (const Part& p : parts) text += (text.empty() ? "" : ", ") + p.device;
  return text;
}

}  // namespace

const Part* part_on(const Parts& parts, const DeviceId& device) {
  const auto found = std::ranges::find(parts, device, &Part::device);
  return found == parts.end() ? nullptr : &*found;
}

Ledger::Ledger(std::vector<Device> devices, std::string arbiter)
    : devices_(std::move(devices)), arbiter_(std::move(arbiter)) {}

const Device* Ledger::find(const DeviceId& id) const {
  const auto found = std::ranges::find(devices_, id, &Device::id);
  return found == devices_.end() ? nullptr : &*found;
}

Ledger::Promises::const_iterator Ledger::first_on(const DeviceId& device) const {
  return std::ranges::find_if(
      promises_, [&](const auto& p) { return part_on(p.second.parts, device) != nullptr; });
}

Result<std::string> Ledger::arbiter_for(const InstanceId& id,
                                        const std::vector<PartRequest>& wanted,
                                        const std::string& named) const {
  std::string chosen = named;
  for (const PartRequest& w : wanted) {
    const Device* d = find(w.device);
    // The user fixed it for all devices.
    if (d != nullptr && !d->arbiter.empty()) return d->arbiter;
    const auto first = first_on(w.device);
    if (first == promises_.end()) continue;
    const std::string& runs = first->second.arbiter;
    if (chosen.empty()) chosen = runs;
    if (chosen != runs)
      return Error{ErrorKind::kConflict, w.device + " runs the arbiter " + runs + " for " +
                                             first->first + "; " + id + " needs the arbiter " +
                                             chosen};
  }
  const Device* first = find(wanted.front().device);
  if (first != nullptr && chosen.empty()) chosen = policy::arbiter_on(first->kind, arbiter_);
  for (const PartRequest& w : wanted)
    if (const Device* d = find(w.device)) SLUICE_TRY(policy::check_arbiter(chosen, d->kind));
  return chosen;
}

Result<void> Ledger::check_room(const Part& wanted, const InstanceId& but) const {
  Bytes memory = wanted.slice.memory;
  for (const auto& [id, promise] : promises_) {
    const Part* held = part_on(promise.parts, wanted.device);
    if (id == but || held == nullptr) continue;
    if (overlap(*held, wanted))
      return Error{ErrorKind::kExhausted,
                   wanted.device + ": the rectangle at sm " + text(wanted.position.sm_begin) +
                       ", time " + text(wanted.position.time_begin) + " is promised to " + id};
    memory += held->slice.memory;
  }
  const Bytes has = find(wanted.device)->memory;
  if (memory > has)
    return Error{ErrorKind::kExhausted, wanted.device + ": " + std::to_string(wanted.slice.memory) +
                                            " bytes more would promise " + std::to_string(memory) +
                                            " of its " + std::to_string(has)};
  return {};
}

// Returns the lowest corner where the rectangle fits. A free place that could move neither down nor
// left begins at 0 or where another rectangle ends.
std::optional<Position> Ledger::first_free(const Part& wanted, const InstanceId& but,
                                           std::optional<Share> sm_begin) const {
  std::set<Share> sms{kNone}, times{kNone};
  std::vector<Part> others;
  for (const auto& [id, promise] : promises_) {
    const Part* held = part_on(promise.parts, wanted.device);
    if (id == but || held == nullptr) continue;
    sms.insert(held->position.sm_begin + held->slice.sm);
    times.insert(held->position.time_begin + held->slice.quota.request);
    others.push_back(*held);
  }
  if (sm_begin) sms = {*sm_begin};
  Part p = wanted;
  for (const Share sm : sms)
    for (const Share time : times) {
      p.position = {sm, time};
      if (sm + p.slice.sm > kWhole || time + p.slice.quota.request > kWhole) continue;
      if (std::ranges::none_of(others, [&](const Part& held) { return overlap(held, p); }))
        return p.position;
    }
  return std::nullopt;
}

Result<Part> Ledger::fit_new(const InstanceId& id, const PartRequest& wanted) const {
  const auto& [device, slice, position] = wanted;
  const Device* d = find(device);
  if (d == nullptr)
    return Error{ErrorKind::kNotFound, "device: there is no '" + device + "' on this node"};
  SLUICE_TRY(check_shape(*d, slice));
  if (position) SLUICE_TRY(check_position(*d, slice, *position));
  if (d->drained) {
    const std::string& why = d->fault.empty() ? d->set_apart : d->fault;
    return Error{
        ErrorKind::kExhausted,
        device + " is drained" + (why.empty() ? "" : " (" + why + ")") + ": it takes nothing new"};
  }
  Part p{device, slice, position.value_or(Position{})};
  if (!position) {
    const auto free = first_free(p, id, std::nullopt);
    if (!free) return no_room(p);
    p.position = *free;
  }
  SLUICE_TRY(check_room(p, id));
  return p;
}

Result<Promise> Ledger::reserve(const InstanceId& id, const std::vector<PartRequest>& wanted,
                                const std::string& arbiter) {
  if (wanted.empty()) return invalid("parts: there is none; an instance has at least one");
  if (promises_.contains(id)) return Error{ErrorKind::kConflict, id + " holds a slice already"};
  SLUICE_ASSIGN(runs, arbiter_for(id, wanted, arbiter));
  Parts parts;  // each on a device of its own, so that none takes another's place
  for (const PartRequest& w : wanted) {
    if (part_on(parts, w.device) != nullptr)
      return invalid("parts: '" + w.device + "' is there twice; each part has its own device");
    Result<Part> part = fit_new(id, w);
    if (!part.ok()) return refusal(wanted, w, part.error());
    parts.push_back(std::move(*part));
  }
  for (Device& d : devices_)
    if (part_on(parts, d.id) != nullptr) d.window = policy::window_of(runs);
  return promises_[id] = {std::move(parts), std::move(runs)};
}

Result<Part> Ledger::fit_changed(const InstanceId& id, Part part, const PartRequest& wanted) const {
  const Device& d = *find(part.device);
  const Slice& slice = wanted.slice;
  if (slice.sm != part.slice.sm && !d.can_resize_sm)
    return invalid("slice.sm: a running instance's sm cannot change on " + d.id);
  SLUICE_TRY(check_shape(d, slice));
  part.slice = slice;
  if (wanted.position) {
    SLUICE_TRY(check_position(d, slice, *wanted.position));
    part.position = *wanted.position;
  } else if (!check_position(d, slice, part.position).ok() || !check_room(part, id).ok()) {
    const auto free = first_free(part, id, part.position.sm_begin);
    if (!free) return no_room(part);
    part.position = *free;
  }
  SLUICE_TRY(check_room(part, id));
  return part;
}

Result<Promise> Ledger::change(const InstanceId& id, const std::vector<PartRequest>& wanted) {
  const auto held = promises_.find(id);
  if (held == promises_.end()) return Error{ErrorKind::kNotFound, id + " holds no slice"};
  const Parts& before = held->second.parts;
  if (!std::ranges::equal(wanted, before, {}, &PartRequest::device, &Part::device))
    return invalid("parts: " + id + " keeps its devices, " + devices_of(before) +
                   "; a change gives all its parts, in this order");
  Parts parts;
  for (size_t k = 0; k < wanted.size(); ++k) {
    Result<Part> part = fit_changed(id, before[k], wanted[k]);
    if (!part.ok()) return refusal(wanted, wanted[k], part.error());
    parts.push_back(std::move(*part));
  }
  held->second.parts = std::move(parts);
  return held->second;
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
