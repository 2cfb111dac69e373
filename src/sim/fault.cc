#include "sim/fault.h"

#include <algorithm>

namespace sluice::sim {
namespace {

using Kind = Fault::Kind;
using Subject = FaultKind::Subject;
using Lasts = FaultKind::Lasts;

constexpr FaultKind kKinds[] = {
    {Kind::kKill, "kill", Subject::kFunction},
    {Kind::kFail, "fail", Subject::kDevice},
    {Kind::kSilence, "silence", Subject::kNodeOrGateway, Lasts::kMust},
    {Kind::kCrash, "crash", Subject::kGateway, Lasts::kMust},
    {Kind::kLoseOrders, "loseOrders", Subject::kNode, Lasts::kMust},
    {Kind::kDelayOrders, "delayOrders", Subject::kNode, Lasts::kMust, true},
    {Kind::kLoseAnswers, "loseAnswers", Subject::kNode, Lasts::kMust},
    {Kind::kSlowStarts, "slowStarts", Subject::kNode, Lasts::kMust, false, true},
    {Kind::kSlow, "slow", Subject::kFunction, Lasts::kMay, false, true},
    {Kind::kJumpClock, "jumpClock", Subject::kDirection, Lasts::kNo, true},
};

bool is(const Fault& f, Kind kind, std::string_view subject) {
  return f.kind == kind && f.subject == subject;
}

}  // namespace

std::span<const FaultKind> fault_kinds() {
  return kKinds;
}

void ActiveFaults::end(const Fault& f) {
  active_.erase(std::ranges::find(active_, &f));
}

bool ActiveFaults::disturb_orders() const {
  return std::ranges::any_of(active_, [](const Fault* f) { return f->kind != Kind::kSlow; });
}

bool ActiveFaults::any(Kind kind, std::string_view subject) const {
  return std::ranges::any_of(active_, [&](const Fault* f) { return is(*f, kind, subject); });
}

Nanos ActiveFaults::by(Kind kind, std::string_view subject) const {
  Nanos sum{0};
  for (const Fault* f : active_)
    if (is(*f, kind, subject)) sum += f->by;
  return sum;
}

double ActiveFaults::times(Kind kind, std::string_view subject) const {
  double product = 1;
  for (const Fault* f : active_)
    if (is(*f, kind, subject)) product *= f->times;
  return product;
}

}  // namespace sluice::sim
