#include "train/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>

#include "base/random.h"

namespace sluice::train {
namespace {

constexpr int64_t kSamples = 100;

JobSettings settings(int min_workers = 1) {
  JobSettings s;
  s.job.epochs = 3;
  s.job.batch = 8;
  s.job.learning_rate = 0.1;
  s.batch = {.least = 8, .most = 8};
  s.min_workers = min_workers;
  return s;
}

// A job and workers that do what sluice-trainer does, in virtual time: each message takes one step
// of the play, a step of training happens when all members of a generation are there. The
// parameters are the counts of the samples that they have seen.
class Play {
 public:
  explicit Play(JobSettings s) : job_(std::move(s), now_) {}

  struct Worker {
    bool loaded = false;
    int64_t generation = 0;  // that it is a member of; 0: none
    Form form;
    bool halted = false;
    std::vector<int> used;  // its parameters; empty: none
    JobPosition at;
    std::optional<bool> left;  // it was let go; whether it was to save
  };

  void hello(const std::string& name) {
    workers_[name] = {};
    deliver(job_.hello({.job = "j", .worker = name}, now_));
  }
  void load(const std::string& name) {
    workers_[name].loaded = true;
    say(name, Loaded{.samples = kSamples});
  }
  void expect(const std::string& name) { job_.expect(name, now_); }
  bool end(const std::string& name, const std::string& error) {
    die(name);
    return job_.ended(name, error, now_);
  }
  void stop_answering(const std::string& name) {
    deliver(job_.give_up(name, "has not answered for 30 s", now_));
  }
  bool stalled() const { return job_.stalled(now_); }
  void join(const std::string& name) { hello(name), load(name); }
  void leave(const std::string& name) { say(name, Leaving{}); }
  void die(const std::string& name) {
    workers_.erase(name);
    deliver(job_.closed(name, now_));
  }
  void advance(Nanos by) {
    now_ += by;
    deliver(job_.tick(now_));
  }
  void say(const std::string& name, const WorkerMessage& m) {
    deliver(job_.receive(name, m, now_));
  }

  // One step of the generation, if all its members are there. `dies`: within the step, when some
  // have the sums and others do not.
  bool step(const std::string& dies = "", Random* random = nullptr);
  // Members that have been told to stop, or miss another, do.
  void stop_members();

  Job& job() { return job_; }
  std::map<std::string, Worker>& workers() { return workers_; }
  const std::vector<std::string>& refusals() const { return refusals_; }
  std::optional<std::vector<int>> saved, finished;
  int adapted = 0;  // the batch that rank 0 was asked for last

  std::vector<std::string> members() const {
    std::vector<std::string> names;
    for (const auto& [name, w] : workers_)
      if (w.generation == job_.generation() && w.generation > 0) names.push_back(name);
    return names;
  }

 private:
  void deliver(const std::vector<Outgoing>& messages);
  void take(Worker& w);

  Time now_ = Time(Seconds(1000));
  Job job_;
  std::map<std::string, Worker> workers_;
  std::vector<std::string> refusals_;
  JobPosition saved_at_;
};

void Play::deliver(const std::vector<Outgoing>& messages) {
  for (const Outgoing& m : messages) {
    const auto found = workers_.find(m.worker);
    if (found == workers_.end()) continue;
    Worker& w = found->second;
    if (const auto* form = std::get_if<Form>(&m.message)) {
      w.form = *form;
      w.generation = form->generation;
      w.halted = false;
      if (!form->resume.empty()) w.used = *saved, w.at = saved_at_;
      if (w.used.empty() && form->rank == 0) w.used.assign(kSamples, 0);
    } else if (const auto* halt = std::get_if<Halt>(&m.message)) {
      w.halted = halt->generation == w.generation;
    } else if (const auto* refused = std::get_if<Refused>(&m.message)) {
      refusals_.push_back(refused->error);
    } else if (const auto* adapt = std::get_if<Adapt>(&m.message)) {
      adapted = adapt->batch;
    } else if (const auto* leave = std::get_if<Leave>(&m.message)) {
      w.left = leave->save;
    }
  }
  for (auto w = workers_.begin(); w != workers_.end(); ++w) {
    if (!w->second.left) continue;
    const std::string name = w->first;
    if (*w->second.left) {
      saved = w->second.used;
      saved_at_ = w->second.at;
      w->second.left = false;
      return say(name, Saved{.at = saved_at_, .path = "checkpoint"});
    }
    return die(name);
  }
}

void Play::take(Worker& w) {
  const SampleRange all = step_range(w.at, 8, kSamples);
  for (int64_t i = all.begin; i < all.end; ++i) ++w.used[static_cast<size_t>(i)];
  w.at = after(w.at, all, kSamples);
}

bool Play::step(const std::string& dies, Random* random) {
  std::vector<std::string> names = members();
  if (names.empty() || static_cast<int>(names.size()) != workers_[names[0]].form.world)
    return false;
  const auto first = std::find_if(names.begin(), names.end(),
                                  [&](const std::string& n) { return workers_[n].form.rank == 0; });
  const Worker newest = workers_[*first];
  for (const std::string& n : names) {
    Worker& w = workers_[n];
    if (w.form.sync) w.used = newest.used, w.at = newest.at;
    // Without a hand-over all have the same: else some sample would be lost.
    EXPECT_EQ(w.used, newest.used);
    if (w.at.epoch < 3 && (dies.empty() || random->chance(0.5))) take(w);
  }
  if (!dies.empty()) return die(dies), true;
  if (newest.at.epoch >= 3) {
    finished = newest.used;
    say(*first, Finished{.step = newest.at.step, .model = "model.pt"});
    return true;
  }
  say(*first, Progress{.generation = newest.generation, .at = workers_[*first].at});
  return true;
}

void Play::stop_members() {
  for (const std::string& n : members()) {
    if (!workers_.contains(n)) continue;
    Worker& w = workers_[n];
    const bool incomplete = static_cast<int>(members().size()) != w.form.world;
    if (!w.halted && !incomplete) continue;
    const int64_t generation = std::exchange(w.generation, 0);
    say(n, Stopped{generation, w.used.empty() ? -1 : w.at.step, incomplete ? "lost" : "halted"});
  }
}

TEST(Job, TheFirstWorkersWaitForThoseThatLoad) {
  Play play(settings());
  play.hello("a"), play.hello("b");
  play.load("a");
  EXPECT_EQ(play.job().workers(), 0);
  play.load("b");
  EXPECT_EQ(play.job().workers(), 2);
  EXPECT_EQ(play.job().generation(), 1);
}

TEST(Job, ButNotForLongerThanTheirPatience) {
  Play play(settings());
  play.hello("a"), play.hello("b");
  play.load("a");
  ASSERT_TRUE(play.job().next_tick());
  play.advance(Seconds(2));
  EXPECT_EQ(play.job().workers(), 1);
}

TEST(Job, WorkersThatNeverJoinPauseIt) {
  Play p(settings());
  p.expect("a");
  p.advance(Seconds(119));
  EXPECT_EQ(p.job().phase(), JobPhase::kQueued);
  p.advance(Seconds(1));
  EXPECT_EQ(p.job().phase(), JobPhase::kPaused);
  EXPECT_EQ(p.job().trouble(), "no worker has joined for 120 s");

  Play joined(settings());
  joined.expect("a");
  joined.join("a");
  joined.advance(Seconds(200));
  EXPECT_EQ(joined.job().phase(), JobPhase::kRunning);
}

TEST(Job, FewerThanItsLeastWait) {
  Play play(settings(2));
  play.join("a");
  EXPECT_EQ(play.job().workers(), 0);
  play.join("b");
  EXPECT_EQ(play.job().workers(), 2);
  EXPECT_TRUE(play.step());
  play.die("b");
  play.stop_members();
  EXPECT_EQ(play.job().workers(), 0);
  EXPECT_EQ(play.job().phase(), JobPhase::kRunning);
  play.join("c");
  EXPECT_EQ(play.job().workers(), 2);
}

TEST(Job, ReformsSayWhyAndBetweenHowMany) {
  Play play(settings());
  play.join("a");
  play.step();
  play.join("b");
  play.stop_members(), play.step();
  play.leave("a");
  play.stop_members(), play.step();
  play.join("c");
  play.stop_members(), play.step();
  play.die("c");
  play.stop_members(), play.step();
  std::vector<std::string> said;
  for (const Reform& r : play.job().reforms())
    said.push_back(r.why + " " + std::to_string(r.before) + "→" + std::to_string(r.after));
  EXPECT_EQ(said, (std::vector<std::string>{"start 0→1", "join 1→2", "leave 2→1", "join 1→2",
                                            "crash 2→1"}));
}

TEST(Job, TheLastToLeaveSavesAndTheNextBeginsThere) {
  Play play(settings());
  play.join("a");
  for (int i = 0; i < 5; ++i) play.step();
  play.leave("a");
  play.stop_members();
  ASSERT_TRUE(play.saved);
  EXPECT_EQ(play.job().newest_checkpoint()->at.step, 5);
  EXPECT_TRUE(play.workers().empty());
  play.join("b");
  EXPECT_EQ(play.workers()["b"].form.resume, "checkpoint");
  play.step();
  EXPECT_EQ(play.workers()["b"].at.step, 6);
}

// Version 1 takes other parts of a step: in one group with it, samples would be used twice, or not.
TEST(Job, AWorkerOfAnEarlierRuleOfPartsIsRefused) {
  Job job(settings(), Time());
  const auto said = job.hello({.worker = "old", .version = 1}, Time());
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(std::get<Refused>(said[0].message).error,
            "speaks version 1 of the protocol; 2 is spoken here");
}

TEST(Job, RefusesWhoDoesNotFit) {
  Play play(settings());
  play.join("a");
  play.job().hello({.worker = "a"}, Time());
  Play other(settings());
  other.hello("a");
  other.workers()["b"] = {};
  for (const Outgoing& m : other.job().hello({.worker = "b", .version = 9}, Time()))
    EXPECT_EQ(std::get<Refused>(m.message).error,
              "speaks version 9 of the protocol; 2 is spoken here");
  other.join("c");
  other.hello("d");
  other.say("d", Loaded{.samples = 7});
  EXPECT_EQ(other.refusals(), (std::vector<std::string>{"reads 7 samples; the others 100"}));
}

// Compute has a large constant part, so that larger steps bring more samples a second.
TEST(Job, TheBatchFollowsTheGoodputAndSaysWhy) {
  JobSettings s = settings();
  s.batch = {.least = 8, .most = 64};
  Play play(s);
  play.join("a");
  const auto report = [&](int batch, double noise) {
    play.say(
        "a",
        Progress{
            .generation = 1, .batch = batch, .step_seconds = 0.1 + 0.001 * batch, .noise = noise});
  };
  report(8, 0);
  play.advance(Seconds(20));
  report(8, 0);
  EXPECT_EQ(play.adapted, 0) << "without a noise scale";
  play.advance(Seconds(20));
  report(8, 1000);
  EXPECT_EQ(play.adapted, 64);
  EXPECT_NE(play.job().batch_reason().find("times the goodput of 8"), std::string::npos);
  play.adapted = 0;
  report(64, 1000);
  EXPECT_EQ(play.job().batch(), 64);
  play.advance(Seconds(20));
  report(64, 1000);
  EXPECT_EQ(play.adapted, 0) << "it is the best already";
  play.advance(Seconds(20));
  report(64, 0.1);  // each sample of a large step brings little
  EXPECT_EQ(play.adapted, 8);
}

// What one has measured is known of the next one from its first step on.
TEST(Job, OneOfAKnownModelBeginsAtItsBestBatch) {
  const auto steps = std::make_shared<StepHistory>();
  JobSettings settings;
  settings.job = {.epochs = 1, .batch = 8, .learning_rate = 0.1};
  settings.batch = {.least = 8, .most = 512};
  settings.steps = steps;
  Play first(settings);
  first.join("a");
  EXPECT_EQ(first.job().batch(), 8);
  first.say("a", Progress{.generation = 1, .batch = 8, .step_seconds = 9});
  first.say("a", Progress{.generation = 1, .batch = 8, .step_seconds = 9});
  EXPECT_FALSE(steps->model()) << "those of the first second are left to the profile";
  first.advance(Seconds(1));
  for (const int batch : {8, 64})
    first.say(
        "a",
        Progress{
            .generation = 1, .batch = batch, .step_seconds = 0.1 + 0.001 * batch, .noise = 500});
  first.say("a", Progress{.generation = 1, .batch = 64, .step_seconds = 0.164, .noise = 500});
  ASSERT_TRUE(steps->model());
  Play second(settings);
  EXPECT_EQ(second.job().noise(), 500);
  EXPECT_TRUE(second.job().step_model());
  second.join("a");
  EXPECT_GT(second.job().batch(), 64);
}

Profiled profiled(int64_t generation) {
  return {generation, 8, 5, {4e6}, {0.1}, {0.02}, 0.1, 0.01};
}

TEST(Job, ItsFirstGroupIsProfiledAndOthersOfItsModelAreNotMeasuredAgain) {
  JobSettings s = settings();
  s.steps = std::make_shared<StepHistory>();
  Play play(s), second(s);
  play.join("a"), play.join("b");
  play.stop_members();
  EXPECT_TRUE(play.job().measures_first());
  const int64_t generation = play.job().generation();
  Profiled wrong = profiled(generation);
  wrong.batch = 0;
  play.say("a", wrong);
  wrong = profiled(generation);
  wrong.sum_seconds.assign(wrong.sum_seconds.size(), 1e300);
  play.say("a", wrong);
  wrong = profiled(generation);
  wrong.bytes.assign(wrong.bytes.size(), 1e300);
  play.say("a", wrong);
  play.say("b", profiled(generation));  // it is not rank 0
  play.say("a", profiled(generation - 1));
  EXPECT_TRUE(play.job().measures_first());
  play.say("a", profiled(generation));
  for (Job* job : {&play.job(), &second.job()}) {
    EXPECT_FALSE(job->measures_first());
    ASSERT_NE(job->profile(), nullptr);
    EXPECT_EQ(job->profile()->workers.count, 2);
    EXPECT_TRUE(job->planned_by_profile());
    EXPECT_TRUE(job->step_model());
  }
  EXPECT_EQ(status_of(second.job()).profile->batch, 8);
  const Time known = play.job().profiled();
  play.advance(Seconds(5));
  Profiled again = profiled(generation);
  again.batch = 16;
  play.say("a", again);
  EXPECT_EQ(play.job().profile()->batch, 8) << "a group reports once";
  EXPECT_EQ(play.job().profiled(), known);
}

TEST(Job, WhoseFirstGroupIsNotProfiledSaysWhyAndGoesOn) {
  Play play(settings());
  play.join("a"), play.join("b");
  play.stop_members();
  EXPECT_TRUE(play.job().measures_first());
  play.die("b");
  EXPECT_FALSE(play.job().measures_first());
  EXPECT_EQ(play.job().not_profiled(),
            "the first group lost a worker before its steps were measured");
  play.stop_members();
  play.say("a", profiled(play.job().generation()));
  EXPECT_EQ(play.job().not_profiled(), "");
  JobSettings script = settings();
  script.script = true;
  EXPECT_FALSE(Play(script).job().measures_first());
}

// Sums across nodes are not those within one.
TEST(Job, TheStepsOfWorkersOnSeveralNodesAreKeptApart) {
  JobSettings settings;
  settings.job = {.epochs = 1, .batch = 8, .learning_rate = 0.1};
  settings.batch = {.least = 8, .most = 8};
  Play play(settings);
  play.hello("a"), play.hello("b");
  play.job().place("a", "n0");
  play.job().place("b", "n1");
  play.load("a"), play.load("b");
  for (int i = 0; i < 3; ++i) {
    play.say("a", Progress{.generation = 1, .batch = 8, .step_seconds = 1, .wait_seconds = 0.6});
    play.advance(Seconds(1));
  }
  ASSERT_TRUE(play.job().step_model());
  EXPECT_LT(step_seconds(*play.job().step_model(), {.count = 2, .nodes = 1}, 4), 0.6);
  EXPECT_NEAR(step_seconds(*play.job().step_model(), {.count = 2, .nodes = 2}, 4), 1, 0.1);
}

TEST(Job, ATroubleEndsItAndItsWorkersLeave) {
  Play play(settings());
  play.join("a"), play.join("b");
  play.stop_members(), play.step();
  play.say("a", Failed{"the loss of step 1 is not finite"});
  EXPECT_EQ(play.job().phase(), JobPhase::kPaused);
  play.stop_members();
  EXPECT_TRUE(play.workers().empty());
  EXPECT_EQ(play.job().trouble(), "the loss of step 1 is not finite");
}

TEST(Job, AWorkerThatWasStoppedBeforeItsHelloIsNotWaitedFor) {
  Play play(settings());
  play.expect("a");
  play.advance(Seconds(60));
  EXPECT_FALSE(play.end("a", "")) << "it had done nothing";
  play.advance(Seconds(200));
  EXPECT_EQ(play.job().phase(), JobPhase::kQueued);
}

// It was stopped while the controller before this one died, so that it does not return.
TEST(Job, AWorkerThatRunsAndDoesNotReturnIsGivenUp) {
  Play play(settings());
  play.join("a");
  for (const char* name : {"a", "b"}) play.job().expect_back(name, Time(Seconds(1000)));
  play.advance(Seconds(45));
  ASSERT_EQ(play.job().stragglers().size(), 1u);
  EXPECT_EQ(play.job().stragglers()[0].worker, "b");
  EXPECT_EQ(play.job().phase(), JobPhase::kRunning);
  play.job().expect_back("b", Time(Seconds(1046)));
  EXPECT_FALSE(play.job().next_tick()) << "it is waited for no more";
}

TEST(Job, ThreeWorkersThatEndWithoutProgressPauseItAndSayHow) {
  Play play(settings());
  for (const char* name : {"a", "b"}) {
    play.join(name);
    EXPECT_FALSE(play.end(name, "exit code 1: ValueError: b")) << "it had done nothing";
  }
  EXPECT_EQ(play.job().phase(), JobPhase::kRunning);
  play.join("c");
  play.step(), play.step();
  EXPECT_TRUE(play.end("c", "signal 9")) << "it has trained: another may begin at once";
  play.join("d"), play.expect("e");  // from the beginning: the steps of c are lost
  play.step();
  EXPECT_TRUE(play.end("d", "signal 9")) << "but nothing is new";
  EXPECT_EQ(play.job().phase(), JobPhase::kRunning);
  EXPECT_FALSE(play.end("e", "exit code 1: ValueError: e"));
  EXPECT_EQ(play.job().phase(), JobPhase::kPaused);
  EXPECT_EQ(play.job().trouble(),
            "3 workers ended without progress, the last one: exit code 1: ValueError: e");
}

TEST(Job, NewStepsForgiveEarlierFailures) {
  Play play(settings());
  play.join("a");
  for (int failure = 0; failure < 10; ++failure) {
    play.join("b");
    play.stop_members(), play.step();
    EXPECT_TRUE(play.end("b", "signal 9"));
    play.stop_members(), play.step();
  }
  EXPECT_EQ(play.job().phase(), JobPhase::kRunning);
}

TEST(Job, GoesOnWithoutAWorkerThatDoesNotAnswer) {
  Play play(settings());
  play.join("a"), play.join("b");
  play.stop_members(), play.step();
  play.stop_answering("b");
  ASSERT_EQ(play.job().stragglers().size(), 1u);
  EXPECT_EQ(play.job().stragglers()[0].worker, "b");
  play.workers().erase("b");
  play.stop_members(), play.step();
  EXPECT_EQ(play.job().workers(), 1);
  EXPECT_EQ(play.job().reforms().back().why, "crash");
  play.hello("b");  // it was continued, and comes back
  EXPECT_EQ(play.refusals().back(), "was given up: has not answered for 30 s");
}

// It answers pings, but its loop hangs: the others' sums end after a while.
TEST(Job, GoesOnWithoutAMemberThatHangsInAStep) {
  Play play(settings());
  play.join("a"), play.join("b");
  play.stop_members(), play.step();
  play.say("a", Stopped{play.job().generation(), 1, "lost"});
  play.workers()["a"].generation = 0;
  play.advance(Seconds(59));
  EXPECT_EQ(play.job().stragglers().size(), 0u);
  ASSERT_TRUE(play.job().next_tick());
  play.advance(Seconds(1));
  ASSERT_EQ(play.job().stragglers().size(), 1u);
  EXPECT_EQ(play.job().stragglers()[0].worker, "b");
  EXPECT_EQ(play.job().workers(), 1);
}

TEST(Job, IsStalledOnceAStepIsOverdue) {
  Play play(settings());
  EXPECT_FALSE(play.stalled());
  play.join("a");
  play.step();
  play.advance(Seconds(10));
  EXPECT_FALSE(play.stalled());
  play.advance(Seconds(1));
  EXPECT_TRUE(play.stalled());
  play.say("a", Progress{.generation = 1, .at = {.step = 2}, .step_seconds = 20});
  play.advance(Seconds(59));
  EXPECT_FALSE(play.stalled()) << "its steps are long";
}

TEST(Job, ProgressOfAnEarlierGenerationIsNone) {
  Play play(settings());
  play.join("a");
  play.step();
  play.join("b");
  play.stop_members(), play.step();
  ASSERT_EQ(play.job().generation(), 2);
  play.say("a", Progress{.generation = 2, .at = {.step = 5}});
  play.say("b", Progress{.generation = 1, .at = {.step = 9}});
  ASSERT_TRUE(play.job().progress());
  EXPECT_EQ(play.job().progress()->at.step, 5);
}

TEST(Job, AWorkersFiguresHaveBounds) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  Play play(settings());
  play.job().hello({.worker = "a", .generation = kMost}, Time());
  EXPECT_EQ(play.job().generation(), 0);
  play.hello("b");
  play.say("b", Loaded{.samples = kMost});
  EXPECT_EQ(play.job().samples(), 0);
  play.join("c");
  play.advance(Seconds(2));
  for (const JobPosition at : {JobPosition{1, kMost, 0}, JobPosition{1, 0, kMost}})
    play.say("c", Progress{.generation = 1, .at = at});
  EXPECT_FALSE(play.job().progress());
}

TEST(Job, TheStoreOfAGenerationIsBounded) {
  const std::string key(kLongestKey, 'k'), value(kLongestValue, 'v');
  const auto refused = [](const std::function<void(Play&)>& with) {
    Play play(settings());
    play.join("a");
    with(play);
    return play.refusals().empty() ? "" : play.refusals().front();
  };
  EXPECT_EQ(refused([&](Play& p) { p.say("a", StoreSet{key, value}); }), "");
  EXPECT_EQ(refused([&](Play& p) {
              p.say("a", StoreSet{key + "k", value});
            }),
            "the store takes keys of at most 256");
  EXPECT_EQ(refused([&](Play& p) {
              p.say("a", StoreSet{key, value + "v"});
            }),
            "the store takes values of at most 32768");
  EXPECT_EQ(refused([&](Play& p) {
              for (size_t i = 0; i <= kMostKeys; ++i) p.say("a", StoreSet{std::to_string(i), ""});
            }),
            "the store takes a number of keys of at most 4096");
  EXPECT_EQ(refused([&](Play& p) {
              for (size_t i = 0; i <= kMostStored / kLongestValue; ++i)
                p.say("a", StoreSet{std::to_string(i), value});
            }),
            "the store takes a generation's keys and values of at most 4194304");
  EXPECT_EQ(refused([&](Play& p) {  // again and again the same one
              for (size_t i = 0; i <= kMostStored / kLongestValue; ++i)
                p.say("a", StoreSet{"key", value});
            }),
            "");
  EXPECT_THAT(refused([&](Play& p) {
                for (size_t i = 0; i <= kMostWaiting; ++i) p.say("a", StoreGet{std::to_string(i)});
              }),
              testing::HasSubstr("questions at once"));
}

// Joins, leaves, deaths between and within steps, in random order: at the end each sample was used
// once in each epoch, by the parameters' own account.
TEST(JobProperty, EverySampleIsUsedOnceAnEpoch) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Play play(settings(static_cast<int>(random.between(1, 2))));
    int born = 0;
    for (int i = 0; i < 3000 && !play.finished; ++i) {
      const auto any = [&]() -> std::string {
        if (play.workers().empty()) return "";
        auto w = play.workers().begin();
        std::advance(w, random.below(play.workers().size()));
        return w->first;
      };
      const std::string one = any();
      const uint64_t what = random.below(20);
      if (play.workers().size() < 5 && (what == 0 || play.workers().empty()))
        play.hello("w" + std::to_string(++born));
      else if (what == 1 && !one.empty() && !play.workers()[one].loaded)
        play.load(one);
      else if (what == 2 && !one.empty() && random.chance(0.2))
        play.leave(one);
      else if (what == 3 && !one.empty() && play.workers().size() > 1 && random.chance(0.3))
        play.die(one);
      else if (what == 4 && play.members().size() > 1 && random.chance(0.2))
        play.step(play.members()[random.below(play.members().size())], &random);
      else if (what <= 6)
        play.advance(Millis(random.between(1, 3000)));
      else if (what <= 9)
        play.stop_members();
      else if (!std::any_of(play.workers().begin(), play.workers().end(),
                            [](const auto& w) { return w.second.halted; }))
        play.step();
    }
    ASSERT_TRUE(play.finished);
    EXPECT_EQ(*play.finished, std::vector<int>(kSamples, 3));
  }
}

}  // namespace
}  // namespace sluice::train
