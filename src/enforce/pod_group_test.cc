#include "enforce/pod_group.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folder.h"

namespace sluice::node {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kUid[] = "0a1b2c3d-1111-2222-3333-444455556666";
constexpr Nanos kOurs = Millis(500);

void write(const std::string& file, const std::string& text) {
  std::ofstream(file) << text;
}
std::string text(const std::string& file) {
  return (std::ostringstream() << std::ifstream(file).rdbuf()).str();
}

// Hierarchies of plain files, as a kubelet and a runtime leave them.
struct PodGroups : testing::Test {
  // Version 1, the driver cgroupfs; the quota is for 100 ms, and -1 for none.
  void make_v1(const std::string& group, const std::string& quota) {
    for (const char* controller : {"cpu", "cpuacct", "cpuset"})
      fs::create_directories(mount.path + "/" + controller + "/" + group);
    write(mount.path + "/cpu/cgroup.procs", "");
    const std::string folder = mount.path + "/cpu/" + group;
    write(folder + "/cpu.cfs_period_us", "100000\n");
    write(folder + "/cpu.cfs_quota_us", quota);
    write(folder + "/cgroup.procs", "");
    write(mount.path + "/cpuset/" + group + "/cpuset.cpus", "0-7");
    write(mount.path + "/cpuacct/" + group + "/cpuacct.usage", "0");
  }
  std::string v1_quota(const std::string& group) const {
    return text(mount.path + "/cpu/" + group + "/cpu.cfs_quota_us");
  }
  // Version 2, systemd's driver.
  void make_v2(const std::string& group, const std::string& most) {
    fs::create_directories(mount.path + "/" + group);
    for (const char* file : {"/cgroup.controllers", "/cgroup.procs"}) write(mount.path + file, "");
    write(mount.path + "/" + group + "/cpu.max", most);
    write(mount.path + "/" + group + "/cgroup.procs", "");
    write(mount.path + "/" + group + "/cpuset.cpus", "");
  }
  std::string v2_quota(const std::string& group) const {
    return text(mount.path + "/" + group + "/cpu.max");
  }
  PodGroup group() const { return PodGroup(PodCgroups::detect(mount.path)); }

  const TemporaryFolder mount;
  const std::string pod = std::string("node1/kubepods/burstable/pod") + kUid;
  const std::string slice =
      "kubepods.slice/kubepods-burstable.slice/"
      "kubepods-burstable-pod0a1b2c3d_1111_2222_3333_444455556666.slice";
};

TEST_F(PodGroups, LowerTheContainersAndNotThePod) {
  make_v1(pod, "-1");
  make_v1(pod + "/app", "-1");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_quota(240, kOurs).ok());
  EXPECT_EQ(v1_quota(pod + "/app"), "120000");
  EXPECT_EQ(text(mount.path + "/cpu/" + pod + "/app/cpu.cfs_period_us"), "500000");
  EXPECT_EQ(v1_quota(pod), "-1");
  ASSERT_TRUE(g.set_quota(600, kOurs).ok());
  EXPECT_EQ(v1_quota(pod + "/app"), "300000");
  EXPECT_EQ(g.fault(), "");
  EXPECT_EQ(g.usage_file(), mount.path + "/cpuacct/" + pod + "/cpuacct.usage");
}

TEST_F(PodGroups, AreHeldWhenTheyComeLaterAndWhenTheRuntimeWritesAfterUs) {
  PodGroup g = group();
  make_v1(pod + "/pause", "-1");
  g = group();
  ASSERT_TRUE(g.set_quota(240, kOurs).ok());
  g.begin(kUid);
  make_v1(pod + "/app", "-1");
  g.hold();
  EXPECT_EQ(v1_quota(pod + "/app"), "120000");
  make_v1(pod + "/app", "10000");  // the runtime: 100 millicores
  g.hold();
  EXPECT_EQ(v1_quota(pod + "/app"), "50000");
}

TEST_F(PodGroups, AreNeverRaisedAboveWhatTheKubeletGave) {
  make_v1(pod, "30000");  // 300 millicores
  make_v1(pod + "/app", "20000");
  make_v1(pod + "/side", "-1");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_quota(1000, kOurs).ok());
  EXPECT_EQ(v1_quota(pod + "/app"), "100000");   // its own 200
  EXPECT_EQ(v1_quota(pod + "/side"), "150000");  // the Pod's 300
  PodGroup next = group();  // a later daemon's: of the container's own limit it knows nothing
  next.begin(kUid);
  ASSERT_TRUE(next.set_quota(1000, kOurs).ok());
  EXPECT_EQ(v1_quota(pod + "/app"), "150000");
}

TEST_F(PodGroups, GiveBackWhatTheyTook) {
  make_v1(pod, "-1");
  make_v1(pod + "/app", "20000");
  make_v1(pod + "/side", "-1");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_cores({0, 2}).ok());
  ASSERT_TRUE(g.set_quota(100, kOurs).ok());
  EXPECT_EQ(text(mount.path + "/cpuset/" + pod + "/app/cpuset.cpus"), "0,2");
  g.give_back();
  EXPECT_EQ(v1_quota(pod + "/app"), "20000");
  EXPECT_EQ(v1_quota(pod + "/side"), "-1");
  EXPECT_EQ(text(mount.path + "/cpuset/" + pod + "/app/cpuset.cpus"), "0-7");
  g.hold();
  EXPECT_EQ(v1_quota(pod + "/app"), "20000");
}

TEST_F(PodGroups, OfSystemdsDriverAndVersion2) {
  make_v2(slice, "max 100000\n");
  make_v2(slice + "/cri-containerd-abcd.scope", "50000 100000\n");
  write(mount.path + "/" + slice + "/cri-containerd-abcd.scope/cgroup.procs", "41\n42\n");
  make_v2(slice + "/cri-containerd-ffff.scope", "max 100000\n");
  write(mount.path + "/" + slice + "/cri-containerd-ffff.scope/cgroup.procs", "40\n");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_quota(240, kOurs).ok());
  EXPECT_EQ(v2_quota(slice), "120000 500000");
  EXPECT_EQ(v2_quota(slice + "/cri-containerd-abcd.scope"), "50000 100000\n");
  EXPECT_EQ(g.usage_file(), mount.path + "/" + slice + "/cpu.stat");
  ASSERT_TRUE(g.set_cores({0, 2}).ok());
  EXPECT_EQ(text(mount.path + "/" + slice + "/cri-containerd-abcd.scope/cpuset.cpus"), "0,2");
  EXPECT_THAT(g.processes_of("abcd"), ElementsAre(41, 42));
  EXPECT_THAT(g.processes_of("abce"), IsEmpty());
  EXPECT_THAT(g.processes(), ElementsAre(41, 42, 40));
  g.choose("cri-containerd-ffff.scope");
  EXPECT_THAT(g.processes(), ElementsAre(40));
}

// The sum of the containers is bounded, and what the kubelet gave the Pod stays above it.
TEST_F(PodGroups, OfVersion2HaveTheQuotaOnThePodAndGiveItBack) {
  make_v2(slice, "30000 100000\n");  // 300 millicores
  const std::string app = slice + "/cri-containerd-abcd.scope";
  make_v2(app, "20000 100000\n");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_quota(240, kOurs).ok());
  EXPECT_EQ(v2_quota(slice), "120000 500000");
  ASSERT_TRUE(g.set_quota(1000, kOurs).ok());
  EXPECT_EQ(v2_quota(slice), "150000 500000");
  make_v2(slice, "10000 100000\n");  // the kubelet resizes the Pod
  g.hold();
  EXPECT_EQ(v2_quota(slice), "50000 500000");
  g.give_back();
  EXPECT_EQ(v2_quota(slice), "10000 100000");

  g.begin(kUid);
  PodGroup next = group();  // a later daemon's: of the Pod's own limit it knows nothing
  next.begin(kUid);
  ASSERT_TRUE(next.set_quota(240, kOurs).ok());
  next.give_back();
  EXPECT_EQ(v2_quota(slice), "max 100000");
  EXPECT_EQ(v2_quota(app), "20000 100000\n");
}

// As an init container's group while it is removed, hierarchy by hierarchy, or made.
TEST_F(PodGroups, ThatAreHalfThereRefuseNothing) {
  make_v1(pod + "/app", "-1");
  fs::remove_all(mount.path + "/cpuset/" + pod + "/app");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_cores({0}).ok());
  EXPECT_EQ(g.fault(), "");
  make_v1(pod + "/app", "-1");
  g.hold();
  EXPECT_EQ(g.fault(), "");
  EXPECT_EQ(text(mount.path + "/cpuset/" + pod + "/app/cpuset.cpus"), "0");
}

TEST_F(PodGroups, OfOtherPodsAreLeftAlone) {
  make_v1(pod, "-1");
  const std::string other = "node1/kubepods/pod0a1b2c3d-1111-2222-3333-444455556667";
  make_v1(other + "/app", "-1");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_quota(240, kOurs).ok());
  EXPECT_EQ(v1_quota(other + "/app"), "-1");
  EXPECT_EQ(container_of(getpid(), kUid), std::nullopt);
}

TEST_F(PodGroups, SayWhatTheKernelRefuses) {
  make_v1(pod + "/app", "-1");
  fs::remove_all(mount.path + "/cpuset");
  PodGroup g = group();
  g.begin(kUid);
  ASSERT_TRUE(g.set_cores({0}).ok());
  EXPECT_EQ(g.fault(), pod + "/app: there is no cpuset controller");
}

TEST_F(PodGroups, WithoutCgroupsSayWhatIsLeft) {
  const PodCgroups none = PodCgroups::detect(mount.path);
  EXPECT_FALSE(none.writable());
  EXPECT_EQ(none.describe(), mount.path +
                                 " has no cgroups with a cpu controller; permits alone "
                                 "enforce the slices of Pods");
}

}  // namespace
}  // namespace sluice::node
