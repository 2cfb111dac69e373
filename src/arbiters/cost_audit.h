// Whether a GPU client's reported costs are true. Nothing on the machine tells what one of several
// clients used of a GPU (NVML's account of processes is a sample: it puts an interval down to the
// process that it meets). But while a client has the device to itself and always has work in
// flight, its units' costs must add up to the time that passes.
//
//   chance        Often a client is alone by chance: others are idle, or held, or it has a turn.
//                 Then its costs are compared without any cost to others.
//   examination   Due for a client that chance has not shown alone for 1 s at first (later 4 s,
//                 then twice as long each time, up to 64 s), and for one that chance has found
//                 wrong: its turns are exclusive until one, or 20 ms of them, have been compared.
//   misreporting  A client whose costs are less than nine tenths of the time of two examinations in
//                 a row: in the first, a unit may end whose cost was unknown when it began. They
//                 count as much more as the second showed, and each of its later turns is another
//                 one: for good, because a client could report truly whenever it has the device
//                 to itself.
//
// A device that runs slower than when costs were learnt (its clock was lowered) makes every
// client's ratio larger: what counts is the ratio to the least of all clients'.
//
// A client gains by a lie until it is found alone, or examined. Pure; one a client; not
// thread-safe.
#pragma once

#include "base/clock.h"

namespace sluice::policy {

class CostAudit {
 public:
  static constexpr Nanos kExamination = Millis(20);  // or one of the client's longest units
  static constexpr int kUnitsByChance =
      10;  // of the longest: they begin and end beside others' work
  static constexpr double kTolerated = 1.1;       // time ÷ cost
  static constexpr Nanos kAllowed = Micros(300);  // for switching to it
  static constexpr Nanos kProbation = Seconds(1);
  static constexpr Nanos kTrustLeast = Seconds(4), kTrustMost = Seconds(64);

  // An interval in which the client was alone: it had work in flight for `busy` of it, and
  // `finished` of its reported costs ended.
  struct Interval {
    Nanos passed{0}, busy{0}, finished{0};
  };

  explicit CostAudit(Time since) : trusted_until_(since + kProbation) {}

  // An examination is due: its turns are exclusive.
  bool due(Time now) const { return misreports_ || now >= trusted_until_; }
  bool misreports() const { return misreports_; }
  // What a unit of reported cost counts as.
  double factor() const { return factor_; }

  // The client was alone by chance. least: as for judge().
  void glance(const Interval& alone, Nanos longest, double least, Time now);

  // The client was alone in an exclusive turn.
  void measure(const Interval& alone);
  // An exclusive turn is over, and with it the work that began in it. Returns true if that
  // completes the examination; judge() follows.
  bool complete(Nanos longest);
  // The time that a unit of cost took in the last examination; 0 if the client was not busy enough
  // to say so.
  double ratio() const { return ratio_; }
  // least: of the clients' ratios; 1 if no other has one.
  void judge(double least, Time now);

 private:
  bool misreports_ = false, suspect_ = false;
  Time trusted_until_;
  Nanos trusts_for_ = kTrustLeast;
  double factor_ = 1, ratio_ = 0;
  Interval glanced_, examined_;
  double all_busy_ = 0, all_finished_ = 0;  // seconds; an earlier examination counts half
};

}  // namespace sluice::policy
