// From inside: what a process with an instance's own uid cannot do. Instances are kept apart by uid
// only as root; without root these tests are skipped, and docs/threat-model.md says what is then
// cooperative.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <functional>

#include "tests/support/child.h"
#include "tests/support/program.h"
#include "wire/permit.h"  // first, as it says

namespace sluice {
namespace {

// Runs `attempt` in a process with that uid and no rights. Returns its result.
std::string as(uid_t uid, const std::function<std::string()>& attempt) {
  return in_child([&](int out) {
           std::string said = "cannot change its uid";
           if (setgroups(0, nullptr) == 0 && setresgid(uid, uid, uid) == 0 &&
               setresuid(uid, uid, uid) == 0)
             said = attempt();
           (void)!write(out, said.data(), said.size());
         })
      .said;
}

// Returns the error of a system call; "allowed" without one.
template <class R>
std::string outcome(R result) {
  return result >= 0 ? "allowed" : strerrorname_np(errno);
}

std::string open_file(const std::string& path, int how) {
  return outcome(open(path.c_str(), how));
}

std::string connect_to(const std::string& path, int type = SOCK_STREAM) {
  sockaddr_un at{.sun_family = AF_UNIX};
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const int fd = socket(AF_UNIX, type, 0);
  return outcome(connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at));
}

struct NodeSecurity : testing::Test {
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "instances have uids of their own as root alone";
    node = std::make_unique<Node>();
    mine = node->ready("mine", 200);
    other = node->ready("other", 300, "another");
    uid = mine["uid"].get<uid_t>();
    other_pid = other["pid"].get<pid_t>();
  }
  std::string attempt(const std::function<std::string()>& what) const { return as(uid, what); }

  std::unique_ptr<Node> node;
  json mine, other;
  uid_t uid = 0;
  pid_t other_pid = 0;
};

TEST_F(NodeSecurity, EveryModelHasItsOwnUid) {
  EXPECT_GE(uid, 61000u);
  EXPECT_NE(mine["uid"], other["uid"]);
  for (const json& i : {mine, other}) {
    struct stat s {};
    ASSERT_EQ(stat(("/proc/" + i["pid"].dump()).c_str(), &s), 0);
    EXPECT_EQ(s.st_uid, i["uid"].get<uid_t>());
    EXPECT_EQ(node->ask(i["id"])["uid"], i["uid"]);
  }
}

// They run the same model, so one has the other's code. It reads nothing of the other all the same.
TEST_F(NodeSecurity, InstancesOfAModelShareItsUidAndNothingElse) {
  const json sibling = node->ready("sibling", 100);
  EXPECT_EQ(sibling["uid"], mine["uid"]);
  const auto pid = sibling["pid"].get<pid_t>();
  const std::string proc = "/proc/" + std::to_string(pid);
  EXPECT_EQ(attempt([&] { return outcome(ptrace(PTRACE_SEIZE, pid, 0, 0)); }), "EPERM");
  EXPECT_EQ(attempt([&] { return open_file(proc + "/mem", O_RDWR); }), "EACCES");
  EXPECT_EQ(attempt([&] { return open_file(proc + "/fd", O_RDONLY); }), "EACCES");
  EXPECT_EQ(attempt([&] {
              const Fd pidfd = pidfd_of(pid);
              return outcome(syscall(SYS_pidfd_getfd, pidfd.get(), 3, 0));
            }),
            "EPERM");
}

TEST_F(NodeSecurity, NoSocketButPermitSock) {
  const std::string run = node->data + "/run/";
  EXPECT_EQ(attempt([&] { return connect_to(run + "node.sock"); }), "EACCES");
  EXPECT_EQ(attempt([&] { return connect_to(run + "i/other.sock"); }), "EACCES");
  EXPECT_EQ(attempt([&] { return connect_to(run + "i/mine.sock"); }), "EACCES");
  EXPECT_EQ(attempt([&] { return connect_to(run + "permit.sock", SOCK_SEQPACKET); }), "allowed");
}

TEST_F(NodeSecurity, NoFile) {
  for (const char* file : {"/run/node.state", "/node.lock", "/logs/other.log", "/logs/mine.log"})
    EXPECT_EQ(attempt([&] { return open_file(node->data + file, O_RDONLY); }), "EACCES") << file;
  EXPECT_EQ(attempt([&] { return open_file(node->data, O_RDONLY | O_DIRECTORY); }), "EACCES");
  EXPECT_EQ(attempt([&] { return open_file(node->data + "/new", O_WRONLY | O_CREAT); }), "EACCES");
}

TEST_F(NodeSecurity, NoOtherProcess) {
  for (const pid_t victim : {node->pid(), other_pid}) {
    SCOPED_TRACE(victim == other_pid ? "neighbour" : "daemon");
    EXPECT_EQ(attempt([&] { return outcome(kill(victim, SIGSTOP)); }), "EPERM");
    EXPECT_EQ(attempt([&] { return outcome(ptrace(PTRACE_SEIZE, victim, 0, 0)); }), "EPERM");
    EXPECT_EQ(attempt([&] {
                char byte;
                iovec to{&byte, 1}, from{reinterpret_cast<void*>(0x400000), 1};
                return outcome(process_vm_readv(victim, &to, 1, &from, 1, 0));
              }),
              "EPERM");
    const std::string proc = "/proc/" + std::to_string(victim);
    EXPECT_EQ(attempt([&] { return open_file(proc + "/mem", O_RDWR); }), "EACCES");
    EXPECT_EQ(attempt([&] { return open_file(proc + "/fd", O_RDONLY); }), "EACCES");
    EXPECT_EQ(attempt([&] {
                const Fd pidfd = pidfd_of(victim);
                return outcome(syscall(SYS_pidfd_getfd, pidfd.get(), 3, 0));
              }),
              "EPERM");
    EXPECT_EQ(attempt([&] {
                cpu_set_t all;
                memset(&all, 0xff, sizeof all);
                return outcome(sched_setaffinity(victim, sizeof all, &all));
              }),
              "EPERM");
  }
  EXPECT_EQ(attempt([&] {
              const sched_param p{.sched_priority = 1};
              return outcome(sched_setscheduler(0, SCHED_FIFO, &p));
            }),
            "EPERM");
  EXPECT_EQ(attempt([&] { return outcome(setpriority(PRIO_PROCESS, 0, -5)); }), "EACCES");
}

TEST_F(NodeSecurity, NoWayOutOfItsGroup) {
  const std::string folder = cpu_group_of(mine["pid"]);
  if (folder.empty()) GTEST_SKIP() << "no cgroup of its own here";
  for (const std::string file : {"/cgroup.procs", "/../cgroup.procs", "/../../../cgroup.procs"})
    EXPECT_EQ(attempt([&] { return open_file(folder + file, O_WRONLY); }), "EACCES") << file;
  for (const std::string file : {"/cpu.cfs_quota_us", "/cpu.max"})  // v1, v2
    EXPECT_THAT(attempt([&] { return open_file(folder + file, O_WRONLY); }),
                testing::AnyOf("EACCES", "ENOENT"));
}

// permit.sock's answer to a process of that uid: the pages, or the refusal.
struct Answer {
  uint32_t type = 0, reason = 0;
  int fds[3] = {-1, -1, -1};
};
Answer ask_for_pages(const std::string& path) {
  sluice_gate gate = {path.c_str(), 0};
  const int sock = sluice_say_hello(&gate);
  pollfd p{sock, POLLIN, 0};
  poll(&p, 1, 10'000);
  union {
    sluice_message head;
    sluice_welcome welcome;
    sluice_refused refused;
  } message{};
  Answer a;
  sluice_receive(sock, &message, sizeof message, a.fds);
  a.type = message.head.type;
  if (a.type == SLUICE_REFUSED) a.reason = message.refused.reason;
  return a;
}

// A second process of a program gets pages of the program's own slice, and cannot better them.
TEST_F(NodeSecurity, APermitCannotBeRaised) {
  const json started = node->call(verb::post, "/v1/instances",
                                  {{"id", "program"},
                                   {"function", "default/f"},
                                   {"device", "cpu0"},
                                   {"slice", Node::slice(200)},
                                   {"program", program_of_node(*node, true)}});
  ASSERT_EQ(started["status"], 202) << started;
  uid = node->wait("program", "ready")["uid"].get<uid_t>();
  const std::string path = node->data + "/run/permit.sock";
  const auto with_page = [&](const std::function<std::string(int)>& act) {
    return attempt([&] {
      const Answer a = ask_for_pages(path);
      return a.type == SLUICE_WELCOME ? act(a.fds[0]) : "refused for " + std::to_string(a.reason);
    });
  };
  EXPECT_EQ(with_page([](int fd) {
              const void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
              return std::to_string(static_cast<const sluice_permit_page*>(page)->request);
            }),
            "200");
  EXPECT_EQ(with_page([](int fd) {
              void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
              return outcome(page == MAP_FAILED ? -1 : 0);
            }),
            "EACCES");
  EXPECT_EQ(with_page([](int fd) { return outcome(write(fd, "x", 1)); }), "EBADF");
  EXPECT_EQ(with_page([](int fd) { return outcome(ftruncate(fd, 0)); }), "EINVAL");
  EXPECT_EQ(with_page([](int fd) { return outcome(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)); }),
            "EPERM");
  EXPECT_EQ(with_page([](int fd) {
              void* page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
              return outcome(mprotect(page, 4096, PROT_READ | PROT_WRITE));
            }),
            "EACCES");
  // Another descriptor of the same memory, opened for writing, is of no use either: it is sealed.
  EXPECT_THAT(with_page([](int fd) {
                const int again = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR);
                if (again < 0) return outcome(again);
                void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0);
                return outcome(page == MAP_FAILED ? -1 : 0) + " " + outcome(write(again, "x", 1));
              }),
              testing::AnyOf("EACCES", "EPERM", "EPERM EPERM"));
}

// Nor does a process with a model's uid that is no instance: the template, where the model is read.
TEST_F(NodeSecurity, AStrangerGetsNoPages) {
  const std::string path = node->data + "/run/permit.sock";
  for (const uid_t stranger : {uid_t{65534}, uid})
    EXPECT_EQ(as(stranger,
                 [&] {
                   const Answer a = ask_for_pages(path);
                   return std::to_string(a.type) + " " + std::to_string(a.reason);
                 }),
              std::to_string(SLUICE_REFUSED) + " " + std::to_string(SLUICE_REFUSED_UNKNOWN));
}

}  // namespace
}  // namespace sluice
