// Timelines of the emulated device: what was submitted when, and which kernel then ran from when to
// when on how many SMs.
#include "device_model/device_model.h"

#include <gmock/gmock.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

namespace sluice::emulator {
namespace {

// A device of 8 SMs. Times are ns; a kernel is written by what it needs.
class DeviceTest : public testing::Test {
 protected:
  void start(bool shared) { start({.sms = 8, .shared = shared, .slice_ns = 100}); }
  void start(const DeviceSpec& spec) { model_->reset(spec, 0); }

  std::uint32_t client(std::uint32_t process, std::uint32_t permille = 1000) {
    return model_->add_client(process, permille);
  }
  std::uint32_t stream(std::uint32_t client, StreamKind kind = StreamKind::kNonBlocking) {
    return model_->open_stream(client, 0, kind);
  }
  // Its name is a number; `blocks` of `ns` each.
  void launch(std::uint32_t stream, std::uint32_t name, std::uint32_t blocks, Ns ns,
              std::uint32_t bandwidth = 0) {
    model_->launch(stream,
                   {.function = name, .blocks = blocks, .bandwidth = bandwidth, .wave_ns = ns});
  }
  // Lets everything run out; then what ran, a line a stretch: process.kernel begin-end xSMs.
  std::string timeline() {
    model_->advance(model_->now());
    while (const auto next = model_->next_change()) model_->advance(*next);
    std::string text;
    for (std::uint64_t i = 0; i < model_->log_end(); ++i) {
      const Stretch& s = model_->stretch(i);
      text += std::to_string(s.process) + "." + std::to_string(s.function) + " " +
              std::to_string(s.begin_ns) + "-" + std::to_string(s.end_ns) + " x" +
              std::to_string(s.sms) + (s.last ? "\n" : " …\n");
    }
    return text;
  }

  std::unique_ptr<DeviceModel> model_ = std::make_unique<DeviceModel>();
};

TEST_F(DeviceTest, AStreamRunsOneAfterTheOtherAndWavesMakeTheTime) {
  start(true);
  const auto s = stream(client(1));
  launch(s, 1, 8, 10);
  launch(s, 2, 17, 10);  // three waves
  launch(s, 3, 1, 10);
  EXPECT_EQ(timeline(), "1.1 0-10 x8\n1.2 10-40 x8\n1.3 40-50 x1\n");
}

TEST_F(DeviceTest, StreamsRunAtOnceAndTheLaterGetsWhatIsLeft) {
  start(true);
  const auto c = client(1);
  const auto a = stream(c), b = stream(c);
  launch(a, 1, 6, 10);
  launch(b, 2, 4, 10);
  // Two waves on two SMs; half was done when four came free, the rest takes half as long.
  EXPECT_EQ(timeline(), "1.1 0-10 x6\n1.2 0-10 x2 …\n1.2 10-15 x4\n");
}

TEST_F(DeviceTest, SharedClientsRunAtOnceEachWithinItsCap) {
  start(true);
  const auto a = stream(client(1, 250)), b = stream(client(2, 500));
  launch(a, 1, 8, 10);
  launch(b, 1, 8, 10);
  EXPECT_EQ(timeline(), "2.1 0-20 x4\n1.1 0-40 x2\n");
}

TEST_F(DeviceTest, WhatIsBehindAHoldWaitsForItsRelease) {
  start(true);
  const auto c = client(1);
  const auto s = stream(c);
  launch(s, 1, 8, 10);
  const Ticket hold = model_->hold(s);
  launch(s, 2, 8, 10);
  model_->advance(5);
  EXPECT_FALSE(model_->holds(hold)) << "there is work before it";
  model_->advance(50);
  EXPECT_TRUE(model_->holds(hold));
  EXPECT_TRUE(model_->held());
  EXPECT_FALSE(model_->reached(hold));
  model_->release(hold);
  EXPECT_EQ(timeline(), "1.1 0-10 x8\n1.2 50-60 x8\n");
  EXPECT_TRUE(model_->reached(hold));
  EXPECT_FALSE(model_->held());
}

TEST_F(DeviceTest, NobodyWaitsForAHoldOfAClientThatHasLeft) {
  start(true);
  const auto c = client(1);
  const auto s = stream(c);
  const Ticket hold = model_->hold(s);
  launch(s, 1, 8, 10);
  model_->advance(50);
  model_->remove_client(c);
  EXPECT_FALSE(model_->held());
  EXPECT_EQ(timeline(), "1.1 50-60 x8\n");
  model_->release(hold);  // too late, and harmless
}

TEST_F(DeviceTest, WithoutSharingClientsTakeTurns) {
  start(false);
  const auto a = stream(client(1)), b = stream(client(2));
  launch(a, 1, 1, 250);
  launch(b, 2, 8, 120);
  EXPECT_EQ(timeline(),
            "1.1 0-100 x1 …\n2.2 100-200 x8 …\n1.1 200-300 x1 …\n2.2 300-320 x8\n1.1 320-370 x1\n");
}

TEST_F(DeviceTest, ASliceEndsAtAMultipleOfItsLengthOnceAnotherClientWaits) {
  start(false);
  const auto a = stream(client(1)), b = stream(client(2));
  launch(a, 1, 8, 1000);
  model_->advance(650);
  launch(b, 2, 8, 10);
  EXPECT_EQ(timeline(), "1.1 0-700 x8 …\n2.2 700-710 x8\n1.1 710-1010 x8\n");
}

TEST_F(DeviceTest, NothingRunsWhileClientsAreSwitched) {
  start({.sms = 8, .slice_ns = 100, .switch_ns = 7});
  const auto a = stream(client(1)), b = stream(client(2));
  launch(a, 1, 8, 150);
  launch(b, 2, 8, 10);
  EXPECT_EQ(timeline(), "1.1 0-100 x8 …\n2.2 107-117 x8\n1.1 124-174 x8\n");
}

TEST_F(DeviceTest, AClientWhoseQueueRanDryKeepsItsSliceForAWhile) {
  start({.sms = 8, .slice_ns = 100, .switch_ns = 7, .linger_ns = 20});
  const auto a = stream(client(1)), b = stream(client(2));
  launch(a, 1, 8, 10);
  launch(b, 2, 8, 10);
  model_->advance(25);
  launch(a, 3, 8, 10);  // in time
  EXPECT_EQ(timeline(), "1.1 0-10 x8\n1.3 25-35 x8\n2.2 62-72 x8\n");
  model_->advance(200);
  launch(a, 4, 8, 10);  // long after
  EXPECT_THAT(timeline(), testing::EndsWith("1.4 207-217 x8\n"));
}

// The wait is of a neighbour's block, half as long to half as long again.
TEST_F(DeviceTest, AKernelThatDoesNotFitBesideANeighboursWaitsForABlock) {
  start({.sms = 8, .shared = true, .block_wait = 1000});
  const auto a = stream(client(1)), b = stream(client(2));
  launch(a, 1, 80, 100);
  model_->advance(10);
  launch(b, 2, 4, 10);
  model_->advance(10);
  const Ns began = *model_->next_change();
  EXPECT_GE(began, 10 + 50);
  EXPECT_LE(began, 10 + 150);
  model_->advance(began);
  EXPECT_EQ(*model_->next_change(), began + 10);
}

TEST_F(DeviceTest, NeighboursShareSmsFairlyAndSlowEachOther) {
  start({.sms = 8, .shared = true, .block_wait = 1, .slowdown = 100});
  const auto a = stream(client(1)), b = stream(client(2));
  launch(a, 1, 80, 100);
  launch(b, 2, 80, 100);
  launch(stream(client(3)), 3, 2, 1);  // the narrow one gets what it asks for
  model_->advance(0);
  model_->advance(1);
  EXPECT_EQ(timeline().substr(0, 13), "3.3 1-2 x2\n1.");
  const Usage first = model_->usage(0), second = model_->usage(1);
  EXPECT_NEAR(double(first.sm_ns), double(second.sm_ns), 0.02 * double(first.sm_ns));
  EXPECT_NEAR(double(model_->now()), 2000 * 1.05, 20);  // half of the SMs are the neighbour's
}

TEST_F(DeviceTest, BandwidthIsSharedFairlyAndTheModestLoseNothing) {
  start(true);
  const auto c = client(1);
  const auto a = stream(c), b = stream(c), d = stream(c);
  launch(a, 1, 2, 100, 900);
  launch(b, 2, 2, 100, 100);
  launch(d, 3, 2, 100, 900);
  // 100 of 1000 go to the modest one, 450 to each of the others, which so run at half speed until
  // the modest one has gone, then at 500 ÷ 900.
  EXPECT_EQ(timeline(), "1.2 0-100 x2\n1.1 0-190 x2\n1.3 0-190 x2\n");
}

TEST_F(DeviceTest, BandwidthIsSharedBetweenPartitionsToo) {
  start(true);
  const auto a = stream(client(1, 500)), b = stream(client(2, 500));
  launch(a, 1, 4, 100, 1000);
  launch(b, 2, 4, 100, 1000);
  EXPECT_EQ(timeline(), "1.1 0-200 x4\n2.2 0-200 x4\n");
}

TEST_F(DeviceTest, ACooperativeKernelWaitsForAllItsSmsAndIsNotOvertaken) {
  start(true);
  const auto c = client(1);
  const auto a = stream(c), b = stream(c), d = stream(c);
  launch(a, 1, 4, 10);
  model_->launch(b, {.function = 2, .blocks = 8, .together = true, .wave_ns = 10});
  launch(d, 3, 4, 10);
  EXPECT_EQ(timeline(), "1.1 0-10 x4\n1.2 10-20 x8\n1.3 20-30 x4\n");
}

TEST_F(DeviceTest, ALegacyStreamKeepsTheOrderWithBlockingStreamsOfItsGroupAlone) {
  start(true);
  const auto c = client(1);
  const auto legacy = stream(c, StreamKind::kLegacy), blocking = stream(c, StreamKind::kBlocking);
  const auto apart = stream(c);
  launch(blocking, 1, 1, 10);
  launch(legacy, 2, 1, 10);
  launch(blocking, 3, 1, 10);
  launch(apart, 4, 1, 25);
  EXPECT_EQ(timeline(), "1.1 0-10 x1\n1.2 10-20 x1\n1.4 0-25 x1\n1.3 20-30 x1\n");
}

TEST_F(DeviceTest, AStreamWaitsForAPlaceInAnother) {
  start(true);
  const auto c = client(1);
  const auto a = stream(c), b = stream(c);
  launch(a, 1, 1, 10);
  const Ticket place = model_->end_of(a);
  launch(a, 2, 1, 10);
  model_->wait(b, place);
  launch(b, 3, 1, 10);
  EXPECT_FALSE(model_->reached(place));
  EXPECT_EQ(timeline(), "1.1 0-10 x1\n1.2 10-20 x1\n1.3 10-20 x1\n");
  EXPECT_TRUE(model_->reached(place));
}

TEST_F(DeviceTest, AnEventTellsWhenItsLastRecordWasReached) {
  start(true);
  const auto c = client(1);
  const auto s = stream(c);
  const auto before = model_->open_event(c), after = model_->open_event(c);
  EXPECT_FALSE(model_->recorded(before).ever);
  model_->record(s, before);
  launch(s, 1, 1, 10);
  model_->record(s, after);
  model_->advance(0);
  EXPECT_TRUE(model_->recorded(before).done);
  EXPECT_FALSE(model_->recorded(after).done);
  launch(s, 1, 1, 10);
  model_->record(s, after);
  model_->advance(15);
  EXPECT_FALSE(model_->recorded(after).done) << "the first record does not count any more";
  model_->advance(20);
  EXPECT_TRUE(model_->recorded(after).done);
  EXPECT_EQ(model_->recorded(after).when - model_->recorded(before).when, 20);
}

TEST_F(DeviceTest, CopiesTakeTheTimeOfTheirBytesAndEnginesWorkAtOnce) {
  start({.sms = 8, .shared = true, .link_gbps = 2, .memory_gbps = 100});
  const auto c = client(1);
  const auto a = stream(c), b = stream(c), d = stream(c);
  const auto end = [&](std::uint32_t s) {
    const auto event = model_->open_event(c);
    model_->record(s, event);
    return event;
  };
  model_->copy(a, Engine::kToDevice, 200);
  const auto first = end(a);
  model_->copy(b, Engine::kToDevice, 200);
  const auto second = end(b);
  model_->copy(d, Engine::kFromDevice, 200);
  const auto back = end(d);
  launch(a, 1, 1, 10);
  EXPECT_EQ(timeline(), "1.1 100-110 x1\n");
  EXPECT_EQ(model_->recorded(first).when, 100);
  EXPECT_EQ(model_->recorded(second).when, 200);
  EXPECT_EQ(model_->recorded(back).when, 100);
}

TEST_F(DeviceTest, WhatAClientLeavesBehindRunsOn) {
  start(true);
  const auto gone = client(1);
  launch(stream(gone), 1, 1, 10);
  model_->remove_client(gone);
  EXPECT_EQ(client(2), gone + 1) << "its slot is taken until its work has ended";
  EXPECT_EQ(timeline(), "1.1 0-10 x1\n");
  EXPECT_EQ(client(3), gone);
}

TEST_F(DeviceTest, AnAbortedClientStopsAtOnce) {
  start(true);
  const auto bad = client(1), good = client(2);
  const auto s = stream(bad), t = stream(good);
  launch(s, 1, 8, 10);
  launch(s, 2, 8, 10);
  launch(t, 3, 8, 10);
  model_->advance(4);
  model_->abort_client(bad);
  EXPECT_EQ(timeline(), "1.1 0-4 x8 …\n2.3 4-14 x8\n");
}

TEST_F(DeviceTest, UsageIsTheUnionOfItsStreams) {
  start(true);
  const auto c = client(1), other = client(2);
  const auto a = stream(c), b = stream(c), d = stream(other);
  launch(a, 1, 2, 100);
  launch(b, 2, 2, 60);
  launch(d, 3, 2, 150);
  timeline();
  EXPECT_EQ(model_->usage(c).busy_ns, 100);
  EXPECT_EQ(model_->usage(c).sm_ns, 320);
  EXPECT_EQ(model_->usage(other).busy_ns, 150);
  EXPECT_EQ(model_->device_busy_ns(), 150);
  EXPECT_EQ(model_->device_sm_ns(), 620);
}

// However work is submitted and looked at: at no instant do more SMs run than there are, no client
// is over its cap, work is conserved, and the log does not depend on how often it is asked.
TEST_F(DeviceTest, AnySchedule) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 40; ++round) {
    const bool shared = random() % 2 == 0;
    auto looked = std::make_unique<DeviceModel>();
    std::vector<DeviceModel*> models = {model_.get(), looked.get()};
    for (DeviceModel* m : models) m->reset({.sms = 8, .shared = shared, .slice_ns = 100}, 0);
    std::vector<std::uint32_t> streams;
    const std::uint32_t caps[] = {250, 500, 1000};
    for (std::uint32_t c = 0; c < 3; ++c)
      for (DeviceModel* m : models) {
        m->add_client(c, caps[c]);
        for (std::uint32_t s = 0; s < 3; ++s)
          if (const auto id = m->open_stream(c, 0, static_cast<StreamKind>(s)); m == models[0])
            streams.push_back(id);
      }
    Ns now = 0;
    for (int i = 0; i < 200; ++i) {
      now += static_cast<Ns>(random() % 40);
      const auto s = streams[random() % streams.size()];
      const Kernel kernel{.function = static_cast<std::uint32_t>(i),
                          .blocks = 1 + static_cast<std::uint32_t>(random() % 20),
                          .wave_ns = 1 + static_cast<Ns>(random() % 100)};
      for (int look = 0; look < 3; ++look) looked->advance(now - 3 + look);
      for (DeviceModel* m : models) {
        m->advance(now);
        m->launch(s, kernel);
      }
    }
    const Ns end = now + 1'000'000;
    for (DeviceModel* m : models) m->advance(end);
    ASSERT_EQ(model_->log_end(), looked->log_end());
    std::vector<std::array<std::uint32_t, 3>> held(200'000);
    int ended = 0;
    for (std::uint64_t i = 0; i < model_->log_end(); ++i) {
      const Stretch &one = model_->stretch(i), &two = looked->stretch(i);
      ASSERT_EQ(one.begin_ns, two.begin_ns);
      ASSERT_EQ(one.end_ns, two.end_ns);
      ASSERT_EQ(one.function, two.function);
      ASSERT_LT(static_cast<std::size_t>(one.end_ns), held.size());
      for (Ns t = one.begin_ns; t < one.end_ns; ++t) held[t][one.process] += one.sms;
      ended += static_cast<int>(one.last);
    }
    EXPECT_EQ(ended, 200);
    for (const auto& at : held) {
      ASSERT_LE(at[0] + at[1] + at[2], 8U);
      const bool capped = at[0] <= 2 && at[1] <= 4;
      const bool one_at_a_time = (at[0] > 0) + (at[1] > 0) + (at[2] > 0) <= 1;
      ASSERT_TRUE(shared ? capped : one_at_a_time);
    }
  }
}

}  // namespace
}  // namespace sluice::emulator
