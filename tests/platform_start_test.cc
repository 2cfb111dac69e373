// `sluice up` where it cannot start: a clear error, its exit code, and nothing running.
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/lock_file.h"
#include "tests/support/platform.h"
#include "tests/support/small_disk.h"

namespace sluice {
namespace {

using testing::HasSubstr;

struct Folder {
  Folder() {
    char name[] = "/tmp/sluice-start-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() { remove_data(path); }
  std::string path;
};

// Runs `sluice up` to its end, which must come by itself.
struct Flags {
  std::string listen = "127.0.0.1:0", api = "127.0.0.1:0", policy = "fixed",
              runtime = program("fake_runtime");
  std::vector<std::string> more;
};
Ended up(const std::string& data, const Flags& f = {}) {
  std::vector<std::string> words{program("sluice"), "--data", data,        "up",
                                 "--listen",        f.listen, "--api",     f.api,
                                 "--policy",        f.policy, "--runtime", f.runtime};
  words.insert(words.end(), f.more.begin(), f.more.end());
  return run(words);
}

// Expects that no process of the platform runs on it.
void expect_nothing_runs(const std::string& data) {
  for (const char* name : {"node", "control", "gateway"})
    EXPECT_EQ(lock_holder(data + "/run/" + name + ".lock").value_or(-1), 0) << name;
  EXPECT_EQ(run({program("sluice"), "--data", data, "down"}).code, 4);
}

TEST(PlatformStart, ASecondUpOnTheSameDataIsTurnedAway) {
  Platform p;
  const Ended second = up(p.data);
  EXPECT_EQ(second.code, 5);
  EXPECT_EQ(second.err,
            "sluice: " + p.data + ": another `sluice up` runs on this data directory\n");
  p.deploy({});
  EXPECT_EQ(p.ask()["status"], 200);
}

TEST(PlatformStart, ATakenPortIsNamedAndNothingStarts) {
  const Fd taken = std::move(*wire::listen_on({.host = "127.0.0.1"}));
  const std::string at = wire::to_string(*wire::bound_to(taken));
  for (const Flags& flags : {Flags{.listen = at}, Flags{.api = at}}) {
    const Folder folder;
    const Ended e = up(folder.path, flags);
    EXPECT_EQ(e.code, 5);
    EXPECT_EQ(e.err, "sluice: listen on " + at + ": Address already in use\n");
    expect_nothing_runs(folder.path);
  }
}

TEST(PlatformStart, WrongFlagsAreNamedAndNothingStarts) {
  const Folder folder;
  const Ended policy = up(folder.path, {.policy = "has-gpus"});
  EXPECT_EQ(policy.code, 2);
  EXPECT_THAT(policy.err, HasSubstr("'has-gpus' is not known"));
  const Ended address = up(folder.path, {.listen = "here"});
  EXPECT_EQ(address.code, 2);
  EXPECT_THAT(address.err, HasSubstr("'here' is none of unix:/path, host:port, port"));
  const Ended runtime = up(folder.path, {.runtime = "/no/such/runtime"});
  EXPECT_EQ(runtime.code, 1);
  EXPECT_THAT(runtime.err, HasSubstr("node: runtime: /no/such/runtime: No such file"));
  const Ended token = up(folder.path, {.more = {"--gateway-token-file", "/no/such/token"}});
  EXPECT_EQ(token.code, 1);
  EXPECT_THAT(token.err, HasSubstr("gateway: token file: /no/such/token: no token can be read"));
  expect_nothing_runs(folder.path);
}

TEST(PlatformStart, ATokenOfThePlatformHoldsForFunctionsThatHaveNone) {
  const Folder folder;
  const std::string file = folder.path + "/token";
  std::ofstream(file) << "ours\n";
  Platform p({"--gateway-token-file", file});
  p.deploy({});
  p.deploy({.name = "own", .more = "  token: its\n"});
  const auto invoke = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "invoke");
    return p.cli(words).code;
  };
  EXPECT_EQ(p.ask()["status"], 401);
  EXPECT_EQ(invoke({"f"}), 6) << "not allowed";
  EXPECT_EQ(invoke({"f", "--token", "ours"}), 0);
  EXPECT_EQ(invoke({"own", "--token", "ours"}), 6);
  EXPECT_EQ(invoke({"own", "--token", "its"}), 0);
  // A gateway that takes over needs it too.
  p.kill_process("gateway");
  EXPECT_EQ(p.ask()["status"], 401);
  EXPECT_EQ(invoke({"f", "--token", "ours"}), 0);
}

TEST(PlatformStart, AFolderThatIsNotOursIsNamed) {
  const Folder folder;
  std::ofstream(folder.path + "/file") << "no folder";
  const Ended file = up(folder.path + "/file");
  EXPECT_EQ(file.code, 1);
  EXPECT_THAT(file.err, HasSubstr("sluice: " + folder.path + "/file"));

  if (!mount_small(folder.path, "size=1m,ro")) GTEST_SKIP() << "mounting is not allowed here";
  const Ended read_only = up(folder.path);
  EXPECT_EQ(read_only.code, 6);
  EXPECT_EQ(read_only.err, "sluice: " + folder.path + "/run: Read-only file system\n");
}

TEST(PlatformStart, AStateThatCannotBeUnderstoodIsNamedAndNothingIsTouched) {
  Platform p;
  p.deploy({});
  const pid_t instance = p.a_pid();
  const std::string state = p.data + "/run/node.state";
  EXPECT_EQ(p.cli({"down", "--keep"}).code, 0);
  p.stop();  // already ended
  for (const char* text : {R"({"version":1,"instances":[{"id":3,"pid":"one"}]})", "[]", "{", ""}) {
    std::ofstream(state) << text;
    const Ended e = up(p.data);
    EXPECT_EQ(e.code, 1) << text;
    EXPECT_THAT(e.err, HasSubstr("node: " + state + ": cannot be understood")) << text;
    EXPECT_THAT(e.err, HasSubstr("(process " + std::to_string(instance) + ")")) << text;
    EXPECT_FALSE(is_dead(instance)) << text;
  }
}

TEST(PlatformStart, UidsOfInstancesBeginWhereTheUserSays) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone has uids to give";
  Platform p({"--first-uid", "70000"});
  p.deploy({});
  EXPECT_EQ(p.ask()["uid"], 70000);
}

TEST(PlatformStart, AFullDiskIsNamedAndNothingIsHalfStarted) {
  for (const int kib : {4, 8, 16, 24, 32, 48, 64, 96}) {
    const Folder folder;
    if (!mount_small(folder.path, "size=" + std::to_string(kib) + "k"))
      GTEST_SKIP() << "mounting is not allowed here";
    const Ended e = up(folder.path);
    EXPECT_EQ(e.code, 1) << kib;
    EXPECT_THAT(e.err, testing::AnyOf(HasSubstr("No space left on device"),
                                      HasSubstr("disk is full"), HasSubstr("disk full")))
        << kib;
    expect_nothing_runs(folder.path);
  }
}

TEST(PlatformStart, ADiskThatFillsUpRefusesChangesAndServesOn) {
  Platform p({}, [](const std::string& data) { return mount_small(data, kSmallDisk); });
  if (!p.prepared()) GTEST_SKIP() << "mounting is not allowed here";
  p.deploy({});
  const std::set<pid_t> before = p.pids();
  Load load(p, 40, "?ms=1");
  const std::string next = p.file_of({.request = 30}), other = p.file_of({.name = "g"});
  fill(p.data + "/filler");
  load.flows(60);
  for (const std::string& file : {next, other}) {
    const Ended refused = p.cli({"apply", "-f", "-"}, file);
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("full"));
  }
  load.flows();
  EXPECT_EQ(p.function()["revision"], 1);
  EXPECT_EQ(p.get("/v1/functions").size(), 1u);
  EXPECT_EQ(p.pids(), before);
  std::filesystem::remove(p.data + "/filler");
  p.deploy({.request = 30});
  EXPECT_EQ(p.function()["revision"], 2);
  expect_nothing_lost(load.end());
}

}  // namespace
}  // namespace sluice
