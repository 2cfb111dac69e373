#include "node/reservations.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

struct ReservationsTest : testing::Test {
  static NodeState node() {
    return {.boot_id = "boot",
            .devices = {{{.id = "cpu0", .millicores = 1000}, {}},
                        {{.id = "cpu1", .millicores = 1000}, {}},
                        {{.id = "cuda0", .kind = DeviceKind::kCuda, .uuid = "GPU-a"}, {}}}};
  }
  ReservationsTest() {
    const EnforcerSettings settings{.permit_socket = folder.path + "/permit.sock",
                                    .permit_sockets = folder.path,
                                    .memory_record = folder.path + "/node.memory"};
    enforcer = std::move(*Enforcer::start(clock, node().devices, *GpuWatch::start(""),
                                          Cgroups::detect("none", "/nowhere"), settings));
    reservations.emplace(clock, records, *enforcer, UidPool(61000, 2));
  }
  static Slice slice(int request) { return {.sm = kWhole, .quota = {{request}, {request}}}; }
  Result<void> enter(const InstanceId& id, int request, bool foreign = false,
                     std::optional<Position> position = {}) {
    InstanceRecord r{.instance = {.id = id}, .foreign = foreign};
    if (!foreign)
      r.birth = ExecOfProgram{.command = {"/bin/true"}};  // forks share a template's uid
    return reservations->enter(std::move(r), {{"cpu0", slice(request), position}});
  }
  // Returns how much of the device is reserved.
  int promised() const {
    int sum = 0;
    for (const auto& [id, p] : reservations->ledger().promises())
      sum += p.parts.front().slice.quota.request.permille;
    return sum;
  }
  // Makes disk writes fail, or work again.
  void break_disk(bool broken = true) {
    if (broken)
      std::filesystem::create_directory(folder.path + "/node.state.new");
    else
      std::filesystem::remove(folder.path + "/node.state.new");
  }

  TemporaryFolder folder;
  ManualClock clock;
  asio::io_context io{1};
  Changes changes{io};
  Records records{folder.path + "/node.state", node(), changes};
  std::unique_ptr<Enforcer> enforcer;
  std::optional<Reservations> reservations;
};

TEST_F(ReservationsTest, WhatIsEnteredIsHeldRecordedAndHasAUid) {
  ASSERT_TRUE(enter("a", 300).ok());
  EXPECT_EQ(promised(), 300);
  EXPECT_EQ(records.find("a")->uid, 61000u);
  EXPECT_TRUE(enforcer->states().contains("a"));
  reservations->release(*records.find("a"));
  EXPECT_EQ(promised(), 0);
  EXPECT_FALSE(enforcer->states().contains("a"));
}

TEST_F(ReservationsTest, WhatTheDiskRefusesHoldsNothing) {
  break_disk();
  EXPECT_FALSE(enter("a", 300).ok());
  EXPECT_EQ(promised(), 0);
  EXPECT_EQ(records.find("a"), nullptr);
  EXPECT_FALSE(enforcer->states().contains("a"));
  break_disk(false);
  ASSERT_TRUE(enter("b", 600).ok());
  ASSERT_TRUE(enter("c", 400).ok());  // both uids are free
}

TEST_F(ReservationsTest, WithoutAUidNothingIsHeld) {
  ASSERT_TRUE(enter("a", 100).ok());
  ASSERT_TRUE(enter("b", 100).ok());
  EXPECT_EQ(enter("c", 100).error().kind, ErrorKind::kExhausted);
  EXPECT_EQ(promised(), 200);
  EXPECT_TRUE(enter("program", 100, true).ok());  // it has its own
}

// Programs of one home share its uid, also when others come between.
TEST_F(ReservationsTest, AHomeHasOneUid) {
  if (geteuid() != 0) GTEST_SKIP() << "root alone gives folders";
  const std::string home = folder.path + "/home";
  ASSERT_EQ(mkdir(home.c_str(), 0750), 0);
  const auto worker = [&](const InstanceId& id) {
    InstanceRecord r{.instance = {.id = id}};
    r.birth = ExecOfProgram{.command = {"/bin/true"}, .home = home};
    return reservations->enter(std::move(r), {{"cpu0", slice(100), {}}});
  };
  ASSERT_TRUE(worker("a").ok());
  ASSERT_TRUE(enter("other", 100).ok());
  ASSERT_TRUE(worker("b").ok());
  EXPECT_EQ(records.find("b")->uid, records.find("a")->uid);
  EXPECT_NE(records.find("other")->uid, records.find("a")->uid);
  reservations->release(*records.find("a"));
  EXPECT_EQ(enter("third", 100).error().kind, ErrorKind::kExhausted) << "b has it still";
  ASSERT_EQ(chmod(home.c_str(), 0777), 0);
  EXPECT_EQ(worker("c").error().kind, ErrorKind::kInvalid);
}

// An instance of two parts. `stranger` is a client of cpu1 that the ledger does not know; it makes
// the second part be refused after the first one is admitted.
struct ReservationsOfParts : ReservationsTest {
  static std::vector<PartRequest> both(int request) {
    return {{"cpu0", slice(request), {}}, {"cpu1", slice(request), {}}};
  }
  Result<void> come(int request) {
    InstanceRecord r{.instance = {.id = "pair"}};
    r.birth = ExecOfProgram{.command = {"/bin/true"}};
    return reservations->enter(std::move(r), both(request));
  }
  void admit_stranger() {
    const Part upper_half{"cpu1", slice(500), {{0}, {500}}};
    const Instance i{.id = "stranger", .parts = {upper_half}, .arbiter = "planned"};
    ASSERT_TRUE(enforcer->admit({.instance = i}).ok());
  }
  // Checks that the first half of a device is free for the arbiter too.
  void expect_free(const DeviceId& device) {
    const Instance i{.id = "on-" + device, .parts = {{device, slice(500), {}}}};
    EXPECT_TRUE(reservations->enter({.instance = i}, {{device, slice(500), {}}}).ok()) << device;
  }
};

TEST_F(ReservationsOfParts, AllPartsAreHeldRecordedAndReleasedTogether) {
  ASSERT_TRUE(come(1000).ok());
  EXPECT_EQ(records.find("pair")->instance.parts.size(), 2u);
  EXPECT_EQ(records.find("pair")->uid, 61000u);
  ASSERT_TRUE(reservations->resize("pair", both(700)).ok());
  EXPECT_EQ(records.find("pair")->instance.parts[1].slice, slice(700));
  EXPECT_FALSE(enter("a", 400).ok());
  reservations->release(*records.find("pair"));
  for (const DeviceId device : {"cpu0", "cpu1"}) expect_free(device);
}

TEST_F(ReservationsOfParts, WhereTheSecondIsRefusedTheFirstIsUndone) {
  admit_stranger();
  EXPECT_FALSE(come(600).ok());
  EXPECT_EQ(records.find("pair"), nullptr);
  EXPECT_FALSE(enforcer->states().contains("pair"));
  for (const DeviceId device : {"cpu0", "cpu1"}) expect_free(device);
}

TEST_F(ReservationsOfParts, WhereTheSecondCannotChangeTheFirstKeepsWhatItHad) {
  ASSERT_TRUE(come(500).ok());
  admit_stranger();
  EXPECT_FALSE(reservations->resize("pair", both(600)).ok());
  for (const Part& p : records.find("pair")->instance.parts) EXPECT_EQ(p.slice, slice(500));
  const Part upper_half{"cpu0", slice(500), {{0}, {500}}};
  const Instance i{.id = "above", .parts = {upper_half}, .arbiter = "planned"};
  EXPECT_TRUE(enforcer->admit({.instance = i}).ok()) << "the arbiter of cpu0 has it back";
}

TEST_F(ReservationsOfParts, TheyAreTakenUpFromTheRecordOfAnEarlierDaemon) {
  ASSERT_TRUE(reservations->set_drained("cpu1", true, "it burns").ok());
  InstanceRecord old{.instance = {.id = "pair",
                                  .parts = {{"cpu0", slice(600), {}}, {"cpu1", slice(600), {}}},
                                  .arbiter = "window"}};
  ASSERT_TRUE(reservations->adopt(old).ok());
  for (const DeviceId device : {"cpu0", "cpu1"}) EXPECT_EQ(enforcer->arbiter_of(device), "window");
  EXPECT_EQ(promised(), 600);
  EXPECT_TRUE(reservations->ledger().find("cpu1")->drained);
}

TEST_F(ReservationsTest, AResizeThatTheDiskRefusesChangesNothing) {
  ASSERT_TRUE(enter("a", 300).ok());
  const Instance before = records.find("a")->instance;
  break_disk();
  EXPECT_FALSE(reservations->resize("a", {{"cpu0", slice(500), {}}}).ok());
  EXPECT_EQ(records.find("a")->instance, before);
  EXPECT_EQ(promised(), 300);
}

// 0–300 a, 300–600 b, 600–1000 c; then a and b shrink.
TEST_F(ReservationsTest, ProgramsAreShiftedToMakeRoomAndFunctionsInstancesAreNot) {
  for (const bool foreign : {true, false}) {
    for (const auto& [id, request] : {std::pair("a", 300), {"b", 300}, {"c", 400}})
      ASSERT_TRUE(enter(id, request, true).ok());
    for (const auto& [id, request] : {std::pair("a", 200), {"b", 200}})
      ASSERT_TRUE(reservations->resize(id, {{"cpu0", slice(request), {}}}).ok());
    records.find("b")->foreign = records.find("c")->foreign = foreign;
    EXPECT_EQ(enter("d", 200, true).ok(), foreign);
    for (InstanceRecord& r : records.instances()) reservations->release(r);
    records.instances().clear();
  }
}

TEST_F(ReservationsTest, AnEmptyDeviceSwitchesToTheArbiterOfItsFirstInstance) {
  const auto come = [&](const InstanceId& id, const std::string& arbiter) {
    const InstanceRecord r{
        .instance = {.id = id, .parts = {{"cpu0", slice(100), {}}}, .arbiter = arbiter}};
    const Result<void> entered = reservations->enter(r, {{"cpu0", slice(100), {}}});
    return entered.ok() ? enforcer->arbiter_of("cpu0") : entered.error().message;
  };
  const auto leave = [&](const InstanceId& id) {
    reservations->release(*records.find(id));
    ASSERT_TRUE(records.remove(id).ok());
  };
  EXPECT_EQ(come("a", "window"), "window");
  EXPECT_EQ(come("b", "planned"),
            "cpu0 runs the arbiter window for a; b needs the arbiter planned");
  EXPECT_EQ(records.find("a")->instance.arbiter, "window");
  leave("a");
  EXPECT_EQ(come("b", "planned"), "planned");
  leave("b");
  EXPECT_EQ(come("program", ""), "planned");
  EXPECT_EQ(records.find("program")->instance.arbiter, "planned") << "as it is recorded";
}

TEST_F(ReservationsTest, AnArbiterThatThisVersionDoesNotHaveIsTheDefaultOne) {
  InstanceRecord later{
      .instance = {.id = "a", .parts = {{"cpu0", slice(300), {}}}, .arbiter = "oracle"}};
  ASSERT_TRUE(reservations->adopt(later).ok());
  EXPECT_EQ(later.instance.arbiter, "planned");
}

// Until its last client leaves; then the GPU runs its kind's.
TEST_F(ReservationsTest, AGpuThatAnEarlierVersionLeftUnderPlannedGoesOnWithIt) {
  EXPECT_EQ(enforcer->arbiter_of("cuda0"), "shares");
  InstanceRecord old{
      .instance = {.id = "old", .parts = {{"cuda0", slice(300), {}}}, .arbiter = "planned"},
      .foreign = true};
  ASSERT_TRUE(reservations->adopt(old).ok());
  EXPECT_EQ(old.instance.arbiter, "planned");
  const auto come = [&](const InstanceId& id) {
    const InstanceRecord r{.instance = {.id = id}, .foreign = true};
    EXPECT_TRUE(reservations->enter(r, {{"cuda0", slice(100), {}}}).ok());
    EXPECT_EQ(records.find(id)->instance.arbiter, enforcer->arbiter_of("cuda0"));
    return records.find(id)->instance.arbiter;
  };
  EXPECT_EQ(come("program"), "planned");
  reservations->release(old);
  reservations->release(*records.find("program"));
  EXPECT_EQ(come("later"), "shares");
}

// All of an earlier daemon's instances on a device are taken over, under one arbiter.
TEST_F(ReservationsTest, InstancesOfAnEarlierDaemonAreTakenUpUnderOneArbiter) {
  InstanceRecord first{
      .instance = {.id = "a", .parts = {{"cpu0", slice(300), {}}}, .arbiter = "window"}};
  InstanceRecord second{
      .instance = {.id = "b", .parts = {{"cpu0", slice(300), {{}, {300}}}}, .arbiter = "planned"}};
  ASSERT_TRUE(reservations->adopt(first).ok());
  ASSERT_TRUE(reservations->adopt(second).ok());
  EXPECT_EQ(enforcer->arbiter_of("cpu0"), "window");
  EXPECT_EQ(second.instance.arbiter, "window");
}

TEST_F(ReservationsTest, ADrainedDeviceKeepsWhatAnEarlierDaemonPromisedOnIt) {
  ASSERT_TRUE(reservations->set_drained("cpu0", true, "it burns").ok());
  EXPECT_EQ(enter("b", 100).error().kind, ErrorKind::kExhausted);
  InstanceRecord old{.instance = {.id = "a", .parts = {{"cpu0", slice(300), {}}}}, .uid = 61000};
  ASSERT_TRUE(reservations->adopt(old).ok());
  EXPECT_EQ(promised(), 300);
  EXPECT_TRUE(reservations->ledger().find("cpu0")->drained);
  EXPECT_EQ(reservations->ledger().find("cpu0")->fault, "it burns");
}

}  // namespace
}  // namespace sluice::node
