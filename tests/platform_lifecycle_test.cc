// A function's life cycle on the whole platform: applied, changed, split, rolled back, moved,
// deleted, and there again after a restart of everything.
#include <sqlite3.h>

#include <cmath>

#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::Contains;
using testing::HasSubstr;

json last_decision(const Platform& p, const std::string& rule, const std::string& name = "f") {
  for (const json& d : p.get("/v1/decisions?limit=1000&function=" + name))
    if (d["reason"]["rule"] == rule) return d;
  return nullptr;
}

TEST(PlatformLifecycle, ApplyingTheSameTwiceIsApplyingItOnce) {
  Platform p;
  p.deploy({.replicas = 2});
  const std::set<pid_t> instances = p.pids();
  const json decisions = p.get("/v1/decisions?limit=1000");
  EXPECT_EQ(p.apply({.replicas = 2}).out, "default/f revision 1 unchanged\n");
  const Ended dry = p.cli({"apply", "--dry-run", "-f", "-"}, p.file_of({.replicas = 3}));
  EXPECT_EQ(dry.code, 0);
  EXPECT_EQ(dry.out, "default/f revision 1 settings (dry run)\n  minReplicas: 2 -> 3\n")
      << "more instances are no new revision";
  EXPECT_EQ(p.function()["revision"], 1);
  EXPECT_EQ(p.pids(), instances);
  EXPECT_EQ(p.get("/v1/decisions?limit=1000"), decisions);
}

TEST(PlatformLifecycle, ANewRevisionAndTheWayBackLoseNoRequest) {
  Platform p;
  p.deploy({.replicas = 2});
  const std::set<pid_t> first = p.pids();
  Load load(p, 40, "?ms=1");
  load.flows();
  p.deploy({.replicas = 2, .request = 30});
  const std::set<pid_t> second = p.pids();
  for (const pid_t pid : first) EXPECT_EQ(second.count(pid), 0u);
  load.flows();
  const Ended back = p.cli({"rollback", "f"});
  EXPECT_EQ(back.code, 0) << back.err;
  p.wait_until_settled("f", 2);
  EXPECT_EQ(p.function()["revision"], 1);
  for (const pid_t pid : p.pids()) EXPECT_EQ(second.count(pid), 0u);
  load.flows();
  expect_nothing_lost(load.end());
}

TEST(PlatformLifecycle, ACanaryGetsItsPartOfTheTraffic) {
  Platform p;
  p.deploy({.replicas = 2});
  const std::string canary = "  canaryTrafficPercent: 30\n";
  EXPECT_EQ(p.apply({.words = "canary", .replicas = 2, .more = canary}).code, 0);
  p.until("/v1/functions/default/f", [](const json& f) {
    return f["split"] ==
           json{{{"revision", 1}, {"percent", 70}}, {{"revision", 2}, {"percent", 30}}};
  });
  std::set<pid_t> ours;
  for (const json& i : p.instances())
    if (i["revision"] == 2) ours.insert(i["pid"].get<pid_t>());
  // The gateway learns of the split at the end of the tick that made it.
  ASSERT_TRUE(
      eventually("the canary to answer", [&] { return ours.count(p.ask().value("pid", 0)) == 1; }));
  constexpr int kAsked = 300;
  int to_canary = 0;
  for (int i = 0; i < kAsked; ++i) to_canary += ours.contains(p.ask().value("pid", 0)) ? 1 : 0;
  const double mean = 0.3 * kAsked, deviation = std::sqrt(kAsked * 0.3 * 0.7);
  EXPECT_NEAR(to_canary, mean, 4 * deviation);

  const std::set<pid_t> before = p.pids();
  EXPECT_EQ(p.apply({.words = "canary", .replicas = 2}).out,
            "default/f revision 2 traffic\n  canaryTrafficPercent: 30 -> 100\n");
  p.wait_until_settled("f", 2);
  for (const pid_t pid : p.pids()) EXPECT_EQ(before.count(pid), 1u);  // nothing was started for it
}

TEST(PlatformLifecycle, AFailedRolloutStaysOnTheOldRevision) {
  Platform p;
  p.deploy({.replicas = 2});
  const std::set<pid_t> first = p.pids();
  Load load(p, 20, "?ms=1");
  load.flows();
  EXPECT_EQ(p.apply({.words = "crash", .replicas = 2}).code, 0);
  const json f = p.until("/v1/functions/default/f", [](const json& now) {
    return !now["rollout_failed"].get<std::string>().empty();
  });
  EXPECT_EQ(f["serving"], 1);
  EXPECT_THAT(f["rollout_failed"].get<std::string>(), HasSubstr("no such tensor"));
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("revision 1 goes on serving"));
  load.flows();
  expect_nothing_lost(load.end());
  for (const pid_t pid : first) EXPECT_THAT(p.pids(), Contains(pid));
  // The next one differs.
  p.deploy({.words = "better", .replicas = 2});
  EXPECT_EQ(p.function()["serving"], 3);
}

TEST(PlatformLifecycle, ADeletedFunctionAnswersWhatItAccepted) {
  Platform p;
  p.deploy({});
  const pid_t pid = p.a_pid();
  HeldRequest held(p);
  ASSERT_EQ(busy_one(p), pid);
  EXPECT_EQ(p.cli({"delete", "f"}).code, 0);
  EXPECT_EQ(p.cli({"describe", "f"}).code, 3);
  ASSERT_TRUE(eventually("a 404", [&] { return p.ask()["status"] == 404; }));
  EXPECT_FALSE(is_dead(pid));
  const json answer = held.answer();
  EXPECT_EQ(answer["status"], 200) << answer;
  EXPECT_EQ(answer.value("pid", 0), pid) << answer;
  EXPECT_TRUE(eventually("the instance's end", [&] { return is_dead(pid); }));
  EXPECT_EQ(p.cli({"delete", "f"}).code, 3);
  p.deploy({});  // another one of the same name
  EXPECT_EQ(p.function()["revision"], 1);
}

TEST(PlatformLifecycle, ADrainedDeviceIsLeftWithItsReasonAndWithoutLoss) {
  Platform p;
  p.deploy({.replicas = 2});
  const std::string device = p.instances()[0]["device"];
  Load load(p, 40, "?ms=1");
  load.flows();
  EXPECT_EQ(p.cli({"drain", device}).code, 0);
  p.until("/v1/instances", [&](const json& all) {
    int elsewhere = 0, left = 0;
    for (const json& i : all)
      if (i["state"] != "gone") ++(i["device"] == device ? left : elsewhere);
    return left == 0 && elsewhere == 2;
  });
  load.flows();
  expect_nothing_lost(load.end());
  EXPECT_THAT(last_decision(p, "replaced")["reason"]["text"].get<std::string>(),
              HasSubstr("Device " + device + " is cordoned."));
  EXPECT_EQ(p.cli({"undrain", device}).code, 0);
  EXPECT_EQ(p.cli({"drain", "cpu99"}).code, 3);
}

TEST(PlatformLifecycle, WhatGetsNothingSaysWhy) {
  Platform p;
  EXPECT_EQ(p.apply({.replicas = 5, .request = 90}).code, 0);  // of four devices
  p.until("/v1/functions/default/f", [](const json& f) { return f["replicas"]["ready"] == 4; });
  // Reported after it has lasted for a second.
  p.until("/v1/decisions",
          [&](const json&) { return !last_decision(p, "cluster-full").is_null(); });
  EXPECT_THAT(last_decision(p, "cluster-full")["reason"]["text"].get<std::string>(),
              HasSubstr("1 could not be started: of 4 devices none has room"));
}

// Its traffic moves at once, and its next request starts the new revision alone.
TEST(PlatformLifecycle, AFunctionAtZeroIsRedeployed) {
  Platform p;
  const auto file = [&](int request) {
    std::string text =
        p.file_of({.replicas = 0, .request = request, .more = "  scaleToZeroAfter: 1s\n"});
    return text.replace(text.find("fixed"), 5, "exclusive");
  };
  EXPECT_EQ(p.cli({"apply", "-f", "-"}, file(20)).code, 0);
  EXPECT_EQ(p.ask()["status"], 200);
  p.until("/v1/instances", [](const json& all) {
    return std::ranges::all_of(all, [](const json& i) { return i["state"] == "gone"; });
  });
  const Ended second = p.cli({"apply", "--wait", "-f", "-"}, file(30));
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("default/f revision 2 serves"));
  const json f = p.function();
  EXPECT_EQ(f["serving"], 2);
  EXPECT_EQ(f["split"], (json{{{"revision", 2}, {"percent", 100}}}));
  EXPECT_EQ(p.ask()["status"], 200);
  for (const json& i : p.instances()) EXPECT_EQ(i["revision"], 2);
}

TEST(PlatformLifecycle, ARollbackGoesToWhatServedNotToAnAbandonedCanary) {
  Platform p;
  p.deploy({});
  EXPECT_EQ(p.apply({.request = 30, .more = "  canaryTrafficPercent: 10\n"}).code, 0);
  p.until("/v1/functions/default/f", [](const json& f) { return f["newest_ready"] == true; });
  p.deploy({.request = 25});
  EXPECT_EQ(p.function()["serving"], 3);
  const Ended back = p.cli({"rollback", "f", "--wait"});
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(back.out, "f rolls back to revision 1\ndefault/f revision 1 serves\n");
  const Ended further = p.cli({"rollback", "f"});
  EXPECT_EQ(further.code, 2);
  EXPECT_THAT(further.err, HasSubstr("there is no earlier revision; there are 1, 2, 3"));
}

std::string training_file(const std::string& name) {
  return "apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\nmetadata: {name: " + name +
         "}\nspec:\n  command: [/bin/true]\n  length: 1\n";
}

TEST(PlatformLifecycle, AFunctionKeepsItsKindAndTheLoopGoesOn) {
  Platform p;
  p.deploy({});
  const pid_t control = p.pid_of("control");
  EXPECT_EQ(p.cli({"apply", "-f", "-"}, training_file("t")).code, 0);
  const Ended training = p.cli({"apply", "-f", "-"}, training_file("f"));
  EXPECT_EQ(training.code, 2);
  EXPECT_THAT(training.err, HasSubstr("default/f is there as an InferenceFunction"));
  const Ended inference = p.apply({.name = "t"});
  EXPECT_EQ(inference.code, 2);
  EXPECT_THAT(inference.err, HasSubstr("default/t is there as a TrainingFunction"));
  EXPECT_EQ(p.cli({"rollback", "t"}).code, 2);
  EXPECT_EQ(p.ask()["status"], 200);
  EXPECT_EQ(p.pid_of("control"), control);
  EXPECT_EQ(p.cli({"delete", "t"}).code, 0);
  p.deploy({.name = "t"});
}

// What an earlier version stored: f has a revision of either kind.
TEST(PlatformLifecycle, AFunctionWhoseStoredStateIsImpossibleIsSetApartAndNamed) {
  Platform p;
  p.deploy({.name = "g"});
  p.deploy({});
  EXPECT_EQ(p.cli({"apply", "-f", "-"}, training_file("t")).code, 0);
  EXPECT_EQ(p.stop(SIGTERM), 0) << p.said();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open((p.data + "/control.db").c_str(), &db), SQLITE_OK);
  EXPECT_EQ(sqlite3_exec(db,
                         "INSERT INTO revisions SELECT 'default/f', 2, replace(spec, "
                         "'\"default/t\"', '\"default/f\"'), created FROM revisions WHERE "
                         "function='default/t'; UPDATE functions SET newest=2 WHERE "
                         "name='default/f'",
                         nullptr, nullptr, nullptr),
            SQLITE_OK)
      << sqlite3_errmsg(db);
  sqlite3_close(db);

  p.launch();
  p.wait_until_serves();
  p.wait_until_settled("g", 1);
  const pid_t control = p.pid_of("control");
  EXPECT_EQ(p.ask("g")["status"], 200);
  const std::string said = "It is set apart: revision 1 is an inference function, revision 2 is a";
  EXPECT_THAT(p.cli({"get", "functions"}).out, HasSubstr("It is set apart: "));
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr(said));
  EXPECT_THAT(p.cli({"events", "f"}).out, HasSubstr(said));
  EXPECT_THAT(p.cli({"rollback", "f"}).err, HasSubstr(said));
  EXPECT_EQ(p.pid_of("control"), control);
  p.deploy({});
  EXPECT_EQ(p.function()["revision"], 3);
  EXPECT_EQ(p.ask()["status"], 200);
}

TEST(PlatformLifecycle, EverythingIsThereAgainAfterARestart) {
  Platform p;
  p.deploy({.replicas = 2});
  p.deploy({.replicas = 2, .request = 30});
  p.deploy({.name = "g"});
  const std::set<pid_t> first = p.pids();
  EXPECT_EQ(p.ask()["status"], 200);
  p.until("/v1/report", [](const json& r) { return r["functions"][0]["ok"] == 1; });
  const json decisions = p.get("/v1/decisions?limit=1000");
  EXPECT_EQ(p.stop(SIGTERM), 0) << p.said();
  for (const pid_t pid : first) EXPECT_TRUE(is_dead(pid));
  for (const char* name : {"node", "control", "gateway"}) EXPECT_EQ(p.pid_of(name), 0) << name;

  p.launch();
  p.wait_until_serves();
  p.wait_until_settled("f", 2);
  p.wait_until_settled("g", 1);
  EXPECT_EQ(p.function()["revision"], 2);
  EXPECT_EQ(p.get("/v1/revisions?function=f").size(), 2u);
  const json after = p.get("/v1/decisions?limit=1000");
  for (const json& d : decisions) EXPECT_THAT(after, Contains(d));
  EXPECT_EQ(p.get("/v1/report")["functions"][0]["ok"], 1);
  EXPECT_EQ(p.ask()["status"], 200);
}

TEST(PlatformLifecycle, AnUpgradeLeavesInstancesRunningAndRefusesNoRequest) {
  Platform p;
  p.deploy({.replicas = 2});
  const std::set<pid_t> instances = p.pids();
  const pid_t gateway = p.pid_of("gateway");
  Load load(p, 20, "?ms=1");
  load.flows(5);
  const Ended down = p.cli({"down", "--keep"});
  EXPECT_EQ(down.code, 0) << down.err;
  for (const pid_t pid : instances) EXPECT_FALSE(is_dead(pid));
  for (const char* name : {"node", "control"}) EXPECT_EQ(p.pid_of(name), 0) << name;
  p.stop(SIGTERM);  // already ended
  load.flows(5);    // the gateway serves on
  EXPECT_EQ(p.cli({"down", "--keep"}).code, 4) << "no platform runs";
  p.launch();
  p.wait_until_serves();
  p.wait_until_settled("f", 2);
  EXPECT_EQ(p.pids(), instances);
  EXPECT_TRUE(eventually("the next gateway", [&] {
    return p.pid_of("gateway") != 0 && p.pid_of("gateway") != gateway;
  }));
  load.flows(5);
  expect_nothing_lost(load.end());
}

TEST(PlatformLifecycle, DownEndsWhatDownKeepHasLeft) {
  Platform p;
  p.deploy({});
  const std::set<pid_t> instances = p.pids();
  const Fd gateway = pidfd_of(p.pid_of("gateway"));
  EXPECT_EQ(p.cli({"down", "--keep"}).code, 0);
  p.stop(SIGTERM);  // already ended
  const Ended down = p.cli({"down"});
  EXPECT_EQ(down.code, 0) << down.err;
  EXPECT_TRUE(ends_within(gateway, kPatience));
  for (const pid_t pid : instances) EXPECT_TRUE(is_dead(pid));
}

}  // namespace
}  // namespace sluice
