// Faults: what goes wrong in a scenario, when, and for how long. Plain values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace sluice::sim {

struct Fault {
  enum class Kind {
    kKill,         // an instance's process dies
    kFail,         // a device fails: its node cordons it and kills what runs there
    kSilence,      // a node or the gateway does not answer the loop; its work goes on
    kCrash,        // the gateway dies; another one takes its place at the end
    kLoseOrders,   // a node's orders return well and do nothing
    kDelayOrders,  // they return well and take effect later
    kLoseAnswers,  // they take effect and return an error
    kSlowStarts,   // starts on a node take longer
    kSlow,         // a function's batches take longer than its profile says
    kJumpClock,    // people's clock is set forward or back
  };
  Nanos at{0};
  Kind kind = Kind::kKill;
  std::string subject;  // a function's served name, a device, a node, the gateway, forward, back
  Nanos lasts{0};       // 0: it has no end, or happens at once
  Nanos by{0};          // of a delay, of a clock's jump
  double times = 1;     // of what takes longer
};

inline constexpr std::string_view kGateway = "gateway";  // the gateway's name

// How a scenario file writes a kind: `key: SUBJECT`, beside the fields that belong to it.
struct FaultKind {
  enum class Subject { kFunction, kDevice, kNode, kNodeOrGateway, kGateway, kDirection };
  enum class Lasts { kNo, kMay, kMust };
  Fault::Kind kind = Fault::Kind::kKill;
  std::string_view key;
  Subject subject = Subject::kFunction;
  Lasts lasts = Lasts::kNo;
  bool by = false, times = false;
};
std::span<const FaultKind> fault_kinds();  // in the order of Fault::Kind

// The faults that have begun and not ended. Those of one kind and subject add up. The faults
// outlive this.
class ActiveFaults {
 public:
  void begin(const Fault& f) { active_.push_back(&f); }
  void end(const Fault& f);

  bool empty() const { return active_.empty(); }
  // Returns whether any may delay or undo what the loop orders.
  bool disturb_orders() const;

  bool any(Fault::Kind kind, std::string_view subject) const;
  Nanos by(Fault::Kind kind, std::string_view subject) const;      // their sum
  double times(Fault::Kind kind, std::string_view subject) const;  // their product

 private:
  std::vector<const Fault*> active_;
};

}  // namespace sluice::sim
