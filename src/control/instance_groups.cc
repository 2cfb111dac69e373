#include "control/instance_groups.h"

#include <algorithm>

#include "control/routes.h"

namespace sluice::control {
namespace {

constexpr size_t kSeconds = 10;
constexpr Nanos kKept = Seconds(600);
constexpr Share kLeastBusy{50};  // an instance that is hardly used says nothing about its rate

// Returns whether the gateway counts it anew.
bool began_anew(const ObservedAnswers& now, const ObservedAnswers& before) {
  return now.answered < before.answered || now.inferences < before.inferences;
}

// Returns what a counter rose by. A gateway that counts anew may have reached its former count.
template <class Number>
Number risen(Number now, Number before) {
  return now > before ? now - before : Number(0);
}

bool serves(const ObservedInstance& o) {
  return ours(o) && (o.instance.state == InstanceState::kReady ||
                     o.instance.state == InstanceState::kDraining);
}

}  // namespace

Nanos InstanceGroup::latency(double quantile) const {
  Histogram h;
  for (const Second& s : seconds_)
    for (const auto& [bucket, count] : s.latency) h.restore(bucket, count);
  return h.quantile(quantile);
}

double InstanceGroup::body_bytes() const {
  uint64_t answers = 0, bytes = 0;
  for (const Second& s : seconds_) answers += s.answers, bytes += s.bytes;
  return answers == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(answers);
}

void InstanceGroup::begin_second() {
  now_ = {};
  seconds_.emplace_back();
  if (seconds_.size() > kSeconds) seconds_.pop_front();
}

void InstanceGroup::add(const ObservedAnswers& now, const ObservedAnswers& before) {
  static const AnswerSpread kNothing;
  Second& second = seconds_.back();
  now_.in_flight += now.in_flight;
  const uint64_t answers = risen(now.answered, before.answered);
  totals_.requests += answers;
  totals_.inferences += risen(now.inferences, before.inferences);
  if (now.spread == nullptr || now.spread == before.spread) return;
  const AnswerSpread& earlier = before.spread == nullptr ? kNothing : *before.spread;
  Histogram& latency = totals_.spread.latency;
  for (const auto& [bucket, count] : now.spread->latency.filled_since(earlier.latency)) {
    latency.restore(bucket, count);
    second.latency.emplace_back(bucket, count);
  }
  latency.restore_sum(latency.sum() + risen(now.spread->latency.sum(), earlier.latency.sum()));
  SizeHistogram& sizes = totals_.spread.body_bytes;
  for (const auto& [bucket, count] : now.spread->body_bytes.filled_since(earlier.body_bytes))
    sizes.restore(bucket, count);
  const uint64_t bytes = risen(now.spread->body_bytes.sum(), earlier.body_bytes.sum());
  sizes.restore_sum(sizes.sum() + bytes);
  second.answers += answers;
  second.bytes += bytes;
}

void InstanceGroup::add(const InstanceMeasurements& m) {
  now_.requests_per_second += m.answers_per_second;
  now_.inferences_per_second += m.inferences_per_second;
  now_.concurrency += m.answers_per_second * seconds(m.latency);  // by Little's law
  if (m.queue > Nanos(0) || m.compute > Nanos(0)) {
    now_.counted_per_second += m.inferences_per_second;
    now_.queue_seconds += m.inferences_per_second * seconds(m.queue);
    now_.compute_seconds += m.inferences_per_second * seconds(m.compute);
  }
  if (m.busy < kLeastBusy) return;
  now_.busy += m.busy.fraction();
  now_.busy_inferences_per_second += m.inferences_per_second;
}

// Returns nullptr if its device is not known.
InstanceGroup* InstanceGroups::group_of(const ObservedInstance& o, const Observation& seen) {
  const Instance& i = o.instance;
  const Device* device = i.parts.empty() ? nullptr : control::find(seen.devices, i.device());
  if (device == nullptr) return nullptr;
  InstanceGroup& group = groups_[{i.function, i.revision, type_of(*device).name, i.slice().sm,
                                  i.slice().quota.request, i.batch}];
  if (group.seconds_.empty()) group.begin_second();
  return &group;
}

void InstanceGroups::step(const Observation& seen, Functions& functions,
                          const MeasuredInstances& measured, Time now) {
  for (auto& [key, group] : groups_) group.begin_second();
  for (auto& [id, counted] : counted_) counted.there = false;
  FunctionFinder finder(functions);
  auto m = measured.begin();
  for (const ObservedInstance& o : seen.instances) {  // both are by id
    const InstanceId& id = o.instance.id;
    const FunctionState* f = serves(o) ? finder.find(o.instance.function) : nullptr;
    if (f == nullptr || !spec_of(f->stored, f->stored.newest).is_inference()) continue;
    InstanceGroup* group = group_of(o, seen);
    if (group == nullptr) continue;
    Counted& counted = counted_[id];
    counted.there = true;
    group->last_there_ = now;
    if (const ObservedAnswers* answers = answers_of(*f, id)) {
      if (began_anew(*answers, counted.before)) counted.before = {};
      group->add(*answers, counted.before);
      counted.before = *answers;
    }
    if (o.instance.state != InstanceState::kReady) continue;
    ++group->now_.instances;
    m = std::ranges::lower_bound(m, measured.end(), id, {}, &InstanceMeasurements::instance);
    if (m != measured.end() && m->instance == id) group->add(*m);
  }
  std::erase_if(counted_, [](const auto& entry) { return !entry.second.there; });
  std::erase_if(groups_, [&](const auto& entry) {
    return now - entry.second.last_there_ > kKept || !functions.contains(entry.first.function);
  });
}

}  // namespace sluice::control
