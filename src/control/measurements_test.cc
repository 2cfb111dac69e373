#include "control/measurements.h"

#include <gtest/gtest.h>

namespace sluice::control {
namespace {

const FunctionName kF{.name = "f"};

class MeasurementsTest : public testing::Test {
 protected:
  MeasurementsTest() { functions[kF].stored.name = kF; }

  // A second in which the instance computes for `busy` and answers so many requests of two
  // inferences, each in 20 ms.
  void second(const InstanceId& id, Nanos busy, uint64_t answers, int in_flight = 0) {
    add(id, busy, answers, in_flight);
    step();
  }
  void add(const InstanceId& id, Nanos busy, uint64_t answers, int in_flight = 0) {
    instance(id).used += busy;
    ObservedAnswers& a = told(id);
    a.in_flight = in_flight;
    a.answered += answers;
    a.inferences += 2 * answers;
    a.answering += Millis(20) * static_cast<int64_t>(answers);
  }
  void step() {
    now += Seconds(1);
    measurements.step(instances, functions, now);
    snapshot.measured = measurements.latest();
  }
  ObservedInstance& instance(const InstanceId& id) {
    if (find_instance(instances, id) == nullptr) {
      instances.push_back({.instance = {.id = id, .function = kF}});
      std::ranges::sort(instances, {}, [](const ObservedInstance& o) { return o.instance.id; });
    }
    return *find_instance(instances, id);
  }
  ObservedAnswers& told(const InstanceId& id) {
    auto& all = functions[kF].answers;
    const auto at = std::ranges::lower_bound(all, id, {}, &ObservedAnswers::instance);
    return at != all.end() && at->instance == id ? *at : *all.insert(at, {.instance = id});
  }
  InstanceMeasurements of(const InstanceId& id) {
    const InstanceMeasurements* found = measurements_of(snapshot, id);
    EXPECT_NE(found, nullptr) << id;
    return found == nullptr ? InstanceMeasurements{} : *found;
  }

  Functions functions;
  std::vector<ObservedInstance> instances;
  Measurements measurements;
  Snapshot snapshot;
  Time now{std::chrono::hours(1)};
};

TEST_F(MeasurementsTest, AnInstanceIsMeasuredOverTheLastTenSeconds) {
  EXPECT_EQ(measurements_of(snapshot, "a"), nullptr);
  second("a", Millis(0), 0);
  EXPECT_EQ(of("a"), (InstanceMeasurements{.instance = "a", .busy = kNone})) << "one observation";
  second("a", Millis(300), 10, 3);
  EXPECT_EQ(of("a"), (InstanceMeasurements{"a", {300}, 20, Millis(20), 3, 10}));
  second("a", Millis(500), 30);
  EXPECT_EQ(of("a"), (InstanceMeasurements{"a", {400}, 40, Millis(20), 0, 20}));
  for (int n = 0; n < 9; ++n) second("a", Millis(100), 5);
  EXPECT_EQ(of("a").busy, Share{140}) << "nine seconds of 100 ms and one of 500";
  EXPECT_NEAR(of("a").inferences_per_second, 2 * (30 + 9 * 5) / 10.0, 1e-9);
  second("a", Millis(100), 5);
  EXPECT_EQ(of("a").busy, Share{100});
  for (int n = 0; n < 10; ++n) second("a", Millis(0), 0);
  EXPECT_EQ(of("a"), (InstanceMeasurements{.instance = "a", .busy = kNone}));
}

TEST_F(MeasurementsTest, LateAnswersArePartsOfThoseOfTheSameSeconds) {
  second("a", Millis(0), 0);
  told("a").late += 3;
  told("a").slow += 1;
  second("a", Millis(300), 12);
  EXPECT_EQ(of("a").answers_per_second, 12);
  EXPECT_EQ(of("a").late, 0.25);
  EXPECT_EQ(of("a").slow, 1.0 / 12);
  for (int n = 0; n < 10; ++n) second("a", Millis(300), 12);
  EXPECT_EQ(of("a").late, 0) << "they were before these ten seconds";
}

TEST_F(MeasurementsTest, AProgramsOwnCountReplacesTheGateways) {
  const auto counts = [&](double inferences, double queue_us, double compute_us) {
    instance("a").program = ProgramCounts{inferences, 0, 0, queue_us, compute_us};
  };
  second("a", Millis(0), 0);
  counts(1000, 0, 0);
  second("a", Millis(300), 5);
  EXPECT_EQ(of("a").inferences_per_second, 10) << "the page is new";
  counts(1040, 0, 0);
  for (int n = 0; n < 9; ++n) second("a", Millis(300), 0);
  counts(1100, 5000, 20'000);
  second("a", Millis(300), 5);
  EXPECT_EQ(of("a").inferences_per_second, 10) << "100 in ten seconds";
  EXPECT_EQ(of("a").queue, Micros(50));
  EXPECT_EQ(of("a").compute, Micros(200));
  counts(3, 0, 0);
  second("a", Millis(300), 5);
  EXPECT_EQ(of("a"), (InstanceMeasurements{.instance = "a", .busy = kNone})) << "it began anew";
  counts(500, 0, 0);
  second("a", Millis(300), 5);
  instance("a").program.reset();
  second("a", Millis(300), 5);
  EXPECT_EQ(of("a").inferences_per_second, 10) << "its page fails";
  counts(1, 0, 0);
  second("a", Millis(300), 5);
  EXPECT_EQ(of("a").inferences_per_second, 10) << "it began anew meanwhile";
}

TEST_F(MeasurementsTest, EachInstanceHasItsOwnAndOneThatIsGoneHasNone) {
  add("b", Millis(0), 0);
  second("d", Millis(0), 0);
  add("b", Millis(100), 1);
  add("c", Millis(900), 0);  // born just now: measured from now on
  second("d", Millis(400), 4);
  EXPECT_EQ(of("b").busy, Share{100});
  EXPECT_EQ(of("c").busy, kNone);
  EXPECT_EQ(of("d").busy, Share{400});
  EXPECT_NEAR(of("d").inferences_per_second, 8, 1e-9);
  instance("b").instance.state = InstanceState::kGone;
  add("c", Millis(200), 0);
  step();
  EXPECT_EQ(measurements_of(snapshot, "b"), nullptr);
  EXPECT_EQ(of("c").busy, Share{200});
  EXPECT_EQ(measurements_of(snapshot, "e"), nullptr);
}

TEST_F(MeasurementsTest, CountersThatBeginAnewMeasureFromThereOn) {
  second("a", Millis(0), 0);
  second("a", Millis(500), 50);
  functions[kF].answers.clear();  // the gateway was restarted
  second("a", Millis(500), 0);
  EXPECT_EQ(of("a").inferences_per_second, 0);
  second("a", Millis(250), 10);
  EXPECT_EQ(of("a"), (InstanceMeasurements{"a", {250}, 20, Millis(20), 0, 10}));
}

// A gateway that was restarted may have answered more than the one before it had: any of the
// counters may be the only one to show it.
TEST_F(MeasurementsTest, OneCounterThatFallsBeginsAllOfThemAnew) {
  const auto anew = [this](const InstanceId& id, auto fall) {
    for (int n = 0; n < 3; ++n) second(id, Millis(500), 50);
    EXPECT_EQ(of(id).busy, Share{500}) << id;
    fall();
    step();
    EXPECT_EQ(of(id), (InstanceMeasurements{.instance = id, .busy = kNone})) << id;
    second(id, Millis(250), 10);
    EXPECT_EQ(of(id), (InstanceMeasurements{id, {250}, 20, Millis(20), 0, 10})) << id;
  };
  anew("used", [&] { instance("used").used -= Millis(1); });
  anew("answering", [&] { told("answering").answering -= Millis(1); });
  anew("answered", [&] { told("answered").answered -= 1; });
  anew("inferences", [&] { told("inferences").inferences -= 1; });
  told("late").late = 5;
  anew("late", [&] { told("late").late -= 1; });
  told("slow").slow = 5;
  anew("slow", [&] { told("slow").slow -= 1; });
}

TEST_F(MeasurementsTest, ASnapshotKeepsWhatItWasGiven) {
  second("a", Millis(0), 0);
  second("a", Millis(300), 10);
  const Snapshot before = snapshot;
  second("a", Millis(900), 90);
  EXPECT_EQ(measurements_of(before, "a")->busy, Share{300});
}

}  // namespace
}  // namespace sluice::control
