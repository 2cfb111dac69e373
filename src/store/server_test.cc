// The model store on the CPU, with clients that are processes: they store, share, wait, and are
// killed at every step.
#include "store/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>

#include "tests/support/eventually.h"
#include "tests/support/store_client.h"
#include "wire/model_store.h"
#include "wire/packet.h"

extern "C" int sluice_test_store_from_c(int socket);

namespace sluice::node {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMib = 1 << 20;
constexpr StoreServerSettings kSettings{.capacity = 64 * kMib, .max_connections = 8};

class StoreServerTest : public testing::Test {
 protected:
  StoreServerTest() : server(std::in_place, host_memory(), kSettings) {}
  ~StoreServerTest() override {
    for (sluice_store* store : stores) sluice_store_close(store);
  }

  Fd connect(const std::string& owner = "f") {
    SocketEnds pair = socket_pair();
    EXPECT_TRUE(server->adopt(std::move(pair.ours), owner).ok());
    return std::move(pair.theirs);
  }
  sluice_store* client(const std::string& owner = "f") {
    sluice_store* store = nullptr;
    EXPECT_EQ(sluice_store_adopt(connect(owner).release(), &store), SLUICE_OK);
    stores.push_back(store);
    return store;
  }
  testing::AssertionResult holds(size_t tensors, uint64_t bytes) {
    return eventually("the store to hold " + std::to_string(tensors) + " tensors", [&] {
      return server->use().tensors == tensors && server->use().bytes == bytes;
    });
  }

  std::optional<StoreServer> server;
  std::vector<sluice_store*> stores;
};

// Stores "w". Says 'f' if it is to fill it, and fills it with `value`; 's' if it shares.
sluice_tensor* store_w(sluice_store* store, char value, const StoreUser::Say& say) {
  sluice_tensor* w = nullptr;
  if (sluice_store_tensor(store, "w", kMib, -1, &w) != SLUICE_OK) return nullptr;
  if (w->fill == 1) {
    std::memset(w->data, value, w->bytes);
    say('f');
    if (sluice_commit_tensor(store, w) == SLUICE_OK) say('c');
  } else {
    say('s');
  }
  return w;
}

TEST_F(StoreServerTest, WhatOneFillsOthersReadWithoutACopy) {
  sluice_store* a = client();
  sluice_store* b = client();
  sluice_tensor *filled = nullptr, *shared = nullptr, *again = nullptr;
  ASSERT_EQ(sluice_store_tensor(a, "w", 5000, 0, &filled), SLUICE_OK) << sluice_store_why(a);
  EXPECT_EQ(filled->fill, 1);
  EXPECT_EQ(filled->on_cuda, 0);
  EXPECT_EQ(filled->bytes, 5000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(filled->data) % 4096, 0u);
  void* const at = filled->data;
  std::memset(at, 7, 5000);
  ASSERT_EQ(sluice_commit_tensor(a, filled), SLUICE_OK) << sluice_store_why(a);
  EXPECT_EQ(filled->data, at) << "its address stays";
  EXPECT_EQ(filled->fill, 0);

  ASSERT_EQ(sluice_get_tensor(b, "w", 0, &shared), SLUICE_OK) << sluice_store_why(b);
  EXPECT_EQ(shared->fill, 0);
  EXPECT_EQ(std::memcmp(shared->data, at, 5000), 0);
  ASSERT_EQ(sluice_store_tensor(b, "w", 5000, 0, &again), SLUICE_OK);
  EXPECT_EQ(again->fill, 0) << "stored twice is shared";
  EXPECT_TRUE(holds(1, 8192));

  EXPECT_EQ(sluice_release_tensor(a, filled), SLUICE_OK);
  EXPECT_EQ(sluice_release_tensor(b, shared), SLUICE_OK);
  EXPECT_TRUE(holds(1, 8192));
  EXPECT_EQ(*static_cast<char*>(again->data), 7);
  EXPECT_EQ(sluice_release_tensor(b, again), SLUICE_OK);
  EXPECT_TRUE(holds(0, 0));
  EXPECT_EQ(sluice_get_tensor(b, "w", 0, &shared), SLUICE_NOT_FOUND);
  EXPECT_EQ(shared, nullptr);
}

TEST_F(StoreServerTest, TheSameFromC) {
  EXPECT_EQ(sluice_test_store_from_c(connect().release()), 0);
}

TEST_F(StoreServerTest, WhatIsCommittedNobodyCanWrite) {
  sluice_store* a = client();
  sluice_tensor* w = store_w(a, 'a', [](char) {});
  ASSERT_NE(w, nullptr);
  EXPECT_NE(mprotect(w->data, 4096, PROT_READ | PROT_WRITE), 0);
  // Nor by the map's file, in any process.
  char line[64];
  std::snprintf(line, sizeof line, "/proc/self/map_files/%lx-%lx",
                reinterpret_cast<unsigned long>(w->data),
                reinterpret_cast<unsigned long>(w->data) + kMib);
  if (const Fd file(open(line, O_RDWR | O_CLOEXEC)); file.valid()) {
    EXPECT_EQ(write(file.get(), "b", 1), -1);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, file.get(), 0), MAP_FAILED);
    EXPECT_EQ(fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    EXPECT_EQ(ftruncate(file.get(), 0), -1);
  }
  EXPECT_EQ(*static_cast<char*>(w->data), 'a');
}

TEST_F(StoreServerTest, ErrorsNameWhatIsAllowed) {
  sluice_store* a = client();
  sluice_store* b = client();
  sluice_tensor *w = nullptr, *none = nullptr;
  EXPECT_EQ(sluice_store_tensor(a, "w", 0, 0, &none), SLUICE_INVALID);
  EXPECT_STREQ(sluice_store_why(a), "bytes: 0 is not 1 … 67108864");
  EXPECT_EQ(sluice_store_tensor(a, "w", UINT64_MAX, 0, &none), SLUICE_INVALID);
  EXPECT_EQ(sluice_get_tensor(a, std::string(256, 'w').c_str(), 0, &none), SLUICE_INVALID);
  EXPECT_THAT(sluice_store_why(a), HasSubstr("255"));

  ASSERT_EQ(sluice_store_tensor(a, "w", 60 * kMib, 0, &w), SLUICE_OK);
  EXPECT_STREQ(sluice_store_why(a), "");
  EXPECT_EQ(sluice_store_tensor(b, "w", kMib, 0, &none), SLUICE_CONFLICT);
  EXPECT_THAT(sluice_store_why(b), HasSubstr("62914560"));
  EXPECT_EQ(sluice_store_tensor(b, "v", 5 * kMib, 0, &none), SLUICE_EXHAUSTED);
  EXPECT_THAT(sluice_store_why(b), HasSubstr("of 67108864"));
  EXPECT_EQ(sluice_get_tensor(b, "w", 1, &none), SLUICE_TIMEOUT);
  EXPECT_EQ(sluice_store_tensor(b, "w", 60 * kMib, 0, &none), SLUICE_TIMEOUT);
  EXPECT_EQ(sluice_commit_tensor(b, w), SLUICE_INVALID);
  EXPECT_EQ(sluice_release_tensor(b, w), SLUICE_INVALID);
  EXPECT_EQ(sluice_commit_tensor(a, w), SLUICE_OK);
  EXPECT_EQ(sluice_commit_tensor(a, w), SLUICE_INVALID);
  EXPECT_EQ(sluice_get_tensor(b, "two words", 0, &none), SLUICE_INVALID);
  EXPECT_EQ(sluice_get_tensor(b, "", 0, &none), SLUICE_INVALID);
}

TEST_F(StoreServerTest, AnotherOwnerReachesNothing) {
  sluice_store* a = client("f");
  sluice_store* b = client("g");
  ASSERT_NE(store_w(a, 'a', [](char) {}), nullptr);
  sluice_tensor* w = nullptr;
  EXPECT_EQ(sluice_get_tensor(b, "w", 0, &w), SLUICE_NOT_FOUND);
  ASSERT_EQ(sluice_store_tensor(b, "w", kMib, 0, &w), SLUICE_OK);
  EXPECT_EQ(w->fill, 1) << "the same name, another tensor";
  EXPECT_TRUE(holds(2, 2 * kMib));
}

TEST_F(StoreServerTest, TwoProcessesThatRaceStoreItOnce) {
  for (int round = 0; round < 20; ++round) {
    const auto body = [](sluice_store* store, const auto& say) { store_w(store, 'a', say); };
    StoreUser a(connect(), body), b(connect(), body);
    const char first = a.next_step(), second = b.next_step();
    EXPECT_NE(first, second) << "one fills it, one shares it";
    EXPECT_TRUE(holds(1, kMib));
    a.kill();
    b.kill();
    EXPECT_TRUE(holds(0, 0));
  }
}

// ---- killed ------------------------------------------------------------------------------------

TEST_F(StoreServerTest, AStorerKilledBeforeTheCommitLeavesNothingAndAnotherFillsIt) {
  std::optional<StoreUser> storer(std::in_place, connect(),
                                  [](sluice_store* store, const auto& say) {
                                    sluice_tensor* w = nullptr;
                                    sluice_store_tensor(store, "w", kMib, -1, &w);
                                    std::memset(w->data, 'a', kMib / 2);
                                    say('h');
                                  });
  ASSERT_EQ(storer->next_step(), 'h');
  StoreUser next(connect(), [](sluice_store* store, const auto& say) {
    sluice_tensor* w = nullptr;
    say('w');
    if (sluice_store_tensor(store, "w", kMib, -1, &w) != SLUICE_OK || w->fill != 1) return;
    say(*static_cast<char*>(w->data) == 0 ? 'n' : 'o');  // nothing of the first storer's
    std::memset(w->data, 'b', kMib);
    sluice_commit_tensor(store, w);
    say('c');
  });
  ASSERT_EQ(next.next_step(), 'w');
  StoreUser getter(connect(), [](sluice_store* store, const auto& say) {
    sluice_tensor* w = nullptr;
    say('w');
    if (sluice_get_tensor(store, "w", -1, &w) == SLUICE_OK) say(*static_cast<char*>(w->data));
  });
  ASSERT_EQ(getter.next_step(), 'w');
  storer->kill();
  EXPECT_EQ(next.next_step(), 'n');
  EXPECT_EQ(next.next_step(), 'c');
  // It may have asked before or after the kill, and waited for either. It never sees half of it.
  const char seen = getter.next_step();
  EXPECT_TRUE(seen == 'b' || seen == 'x') << seen;
  next.kill();
  getter.kill();
  EXPECT_TRUE(holds(0, 0));
}

TEST_F(StoreServerTest, AStorerKilledAfterTheCommitIsMissedByNobody) {
  StoreUser storer(connect(),
                   [](sluice_store* store, const auto& say) { store_w(store, 'a', say); });
  ASSERT_EQ(storer.next_step(), 'f');
  ASSERT_EQ(storer.next_step(), 'c');
  StoreUser getter(connect(), [](sluice_store* store, const auto& say) {
    sluice_tensor* w = nullptr;
    if (sluice_get_tensor(store, "w", -1, &w) == SLUICE_OK) say(*static_cast<char*>(w->data));
  });
  ASSERT_EQ(getter.next_step(), 'a');
  storer.kill();
  sluice_store* late = client();
  sluice_tensor* w = nullptr;
  ASSERT_EQ(sluice_get_tensor(late, "w", -1, &w), SLUICE_OK);
  EXPECT_EQ(*static_cast<char*>(w->data), 'a');
  ASSERT_EQ(sluice_release_tensor(late, w), SLUICE_OK);
  getter.kill();
  EXPECT_TRUE(holds(0, 0)) << "freed with its last user, which was killed";
}

TEST_F(StoreServerTest, AGetterKilledWhileItWaitsIsForgotten) {
  sluice_store* a = client();
  sluice_tensor* w = nullptr;
  ASSERT_EQ(sluice_store_tensor(a, "w", kMib, 0, &w), SLUICE_OK);
  {
    StoreUser getter(connect(), [](sluice_store* store, const auto& say) {
      sluice_tensor* mine = nullptr;
      say('w');
      sluice_get_tensor(store, "w", -1, &mine);
    });
    ASSERT_EQ(getter.next_step(), 'w');
  }
  EXPECT_TRUE(eventually("its connection to end", [&] { return server->use().connections == 1; }));
  EXPECT_EQ(sluice_commit_tensor(a, w), SLUICE_OK);
  EXPECT_EQ(sluice_release_tensor(a, w), SLUICE_OK);
  EXPECT_TRUE(holds(0, 0));
}

TEST_F(StoreServerTest, AChildKeepsWhatItsParentHad) {
  StoreUser parent(connect(), [](sluice_store* store, const auto& say) {
    const sluice_tensor* w = store_w(store, 'a', [](char) {});
    if (fork() != 0) _exit(0);
    sluice_tensor* other = nullptr;
    if (sluice_get_tensor(store, "w", 0, &other) != SLUICE_DENIED) return;
    say(*static_cast<char*>(w->data));
    pollfd store_ends{StoreUser::kSocket, 0, 0};
    poll(&store_ends, 1, -1);
    _exit(0);
  });
  EXPECT_EQ(parent.next_step(), 'a');
  parent.kill();  // ended; its child lives
  EXPECT_TRUE(holds(1, kMib));
  server.reset();  // the server ends with that
}

TEST_F(StoreServerTest, WithoutTheStoreWhatIsMappedStays) {
  sluice_store* a = client();
  sluice_tensor* w = store_w(a, 'a', [](char) {});
  ASSERT_NE(w, nullptr);
  sluice_tensor* half = nullptr;
  ASSERT_EQ(sluice_store_tensor(a, "half", kMib, 0, &half), SLUICE_OK);
  server.reset();
  sluice_tensor* none = nullptr;
  EXPECT_EQ(sluice_get_tensor(a, "w", -1, &none), SLUICE_UNAVAILABLE);
  EXPECT_EQ(sluice_commit_tensor(a, half), SLUICE_UNAVAILABLE);
  std::memset(half->data, 1, kMib);  // still private to this process
  EXPECT_EQ(*static_cast<char*>(w->data), 'a');
  EXPECT_EQ(sluice_release_tensor(a, w), SLUICE_UNAVAILABLE);
}

// ---- clients that break the protocol -----------------------------------------------------------

sluice_store_request raw(sluice_store_type type, const char* name, uint64_t bytes = 0) {
  sluice_store_request m{};
  m.head = {SLUICE_STORE_MAGIC, SLUICE_STORE_VERSION, static_cast<uint32_t>(type)};
  std::strncpy(m.name, name, sizeof m.name - 1);
  m.bytes = bytes;
  return m;
}
sluice_store_answer hear(const Fd& socket, Fd* descriptor = nullptr) {
  sluice_store_answer m{};
  iovec data{&m, sizeof m};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr packet{};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  packet.msg_control = control;
  packet.msg_controllen = sizeof control;
  if (recvmsg(socket.get(), &packet, MSG_CMSG_CLOEXEC) <= 0) return {};
  if (const cmsghdr* c = CMSG_FIRSTHDR(&packet)) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
    Fd came(fd);
    if (descriptor != nullptr) *descriptor = std::move(came);
  }
  return m;
}
template <class M>
void say(const Fd& socket, const M& message, size_t bytes = sizeof(M)) {
  EXPECT_EQ(send(socket.get(), &message, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

TEST_F(StoreServerTest, WhoKeepsItWritableCannotCommit) {
  const Fd socket = connect();
  Fd memory;
  say(socket, raw(SLUICE_ASK_STORE, "w", kMib));
  const sluice_store_answer fill = hear(socket, &memory);
  ASSERT_EQ(fill.head.type, static_cast<uint32_t>(SLUICE_TOLD_FILL));
  void* at = mmap(nullptr, kMib, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  EXPECT_NE(ftruncate(memory.get(), 0), 0) << "it cannot shrink under its readers";
  EXPECT_NE(ftruncate(memory.get(), 1 << 30), 0) << "nor grow past what it is charged for";
  sluice_store_request commit = raw(SLUICE_ASK_COMMIT, "");
  commit.tensor = fill.tensor;
  say(socket, commit);
  EXPECT_EQ(hear(socket).error, static_cast<uint32_t>(SLUICE_CONFLICT));
  munmap(at, kMib);
  say(socket, commit);
  EXPECT_EQ(hear(socket).head.type, static_cast<uint32_t>(SLUICE_TOLD_SHARE));
  EXPECT_EQ(write(memory.get(), "x", 1), -1) << "the descriptor it still has writes no more";
  EXPECT_EQ(mmap(nullptr, kMib, PROT_WRITE, MAP_SHARED, memory.get(), 0), MAP_FAILED);
}

TEST_F(StoreServerTest, WhatIsNoRequestEndsTheConnection) {
  sluice_store_request wrong_magic = raw(SLUICE_ASK_GET, "w");
  wrong_magic.head.magic ^= 1;
  sluice_store_request unended = raw(SLUICE_ASK_GET, "");
  std::memset(unended.name, 'w', sizeof unended.name);
  sluice_store_request version = raw(SLUICE_ASK_GET, "w");
  version.head.version = 0;
  const struct {
    const char* what;
    sluice_store_request request;
    size_t bytes;
  } cases[] = {
      {"short", raw(SLUICE_ASK_GET, "w"), 31},
      {"another protocol", wrong_magic, sizeof wrong_magic},
      {"version 0", version, sizeof version},
      {"no type", raw(static_cast<sluice_store_type>(0), "w"), sizeof wrong_magic},
      {"an answer's type", raw(SLUICE_TOLD_SHARE, "w"), sizeof wrong_magic},
      {"a name without end", unended, sizeof unended},
      {"no name", raw(SLUICE_ASK_STORE, "", 5), sizeof unended},
      {"a name of control characters", raw(SLUICE_ASK_STORE, "a\nb", 5), sizeof unended},
  };
  for (const auto& c : cases) {
    const Fd socket = connect();
    say(socket, c.request, c.bytes);
    const sluice_store_answer answer = hear(socket);
    EXPECT_EQ(answer.error, static_cast<uint32_t>(SLUICE_INVALID)) << c.what;
    EXPECT_EQ(hear(socket).head.type, 0u) << c.what << ": the connection goes on";
  }
}

// An ordinary file has no seals: a process that can truncate it would kill its readers.
TEST(StoreClient, MapsNothingThatCanShrink) {
  const Fd memory(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(memory.get(), 4096), 0);
  const Fd file(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  for (const Fd* unsealed : {&memory, &file}) {
    SocketEnds pair = socket_pair();
    sluice_store_answer answer{};
    answer.head = {SLUICE_STORE_MAGIC, SLUICE_STORE_VERSION, SLUICE_TOLD_SHARE};
    answer.bytes = answer.mapped = 4096;
    answer.memory = SLUICE_MEMORY_HOST;
    const int fd = unsealed->get();
    ASSERT_TRUE(wire::send_packet(pair.theirs.get(), std::as_bytes(std::span(&answer, 1)),
                                  std::span(&fd, 1))
                    .ok());
    shutdown(pair.theirs.get(), SHUT_WR);  // no answer to its release
    sluice_store* store = nullptr;
    sluice_tensor* tensor = nullptr;
    sluice_store_adopt(pair.ours.release(), &store);
    EXPECT_EQ(sluice_get_tensor(store, "w", -1, &tensor), SLUICE_FAULT);
    EXPECT_THAT(sluice_store_why(store), HasSubstr("not sealed memory"));
    sluice_store_close(store);
  }
}

TEST_F(StoreServerTest, ASecondQuestionBeforeTheFirstIsAnsweredEndsTheConnection) {
  sluice_store* a = client();
  sluice_tensor* w = nullptr;
  ASSERT_EQ(sluice_store_tensor(a, "w", kMib, 0, &w), SLUICE_OK);
  const Fd socket = connect();
  say(socket, raw(SLUICE_ASK_GET, "w"));
  say(socket, raw(SLUICE_ASK_GET, "w"));
  EXPECT_EQ(hear(socket).head.type, 0u);
  EXPECT_EQ(sluice_commit_tensor(a, w), SLUICE_OK);
}

TEST_F(StoreServerTest, WhoAsksAndNeverListensIsDropped) {
  const Fd socket = connect();
  fcntl(socket.get(), F_SETFL, O_NONBLOCK);
  const sluice_store_request get = raw(SLUICE_ASK_GET, "w");
  EXPECT_TRUE(eventually("the connection to end", [&] {
    for (;;)
      if (send(socket.get(), &get, sizeof get, MSG_NOSIGNAL) < 0) return errno != EAGAIN;
  }));
  sluice_tensor* w = nullptr;
  EXPECT_EQ(sluice_get_tensor(client(), "w", 0, &w), SLUICE_NOT_FOUND) << "others are served";
}

TEST_F(StoreServerTest, ConnectionsAreBounded) {
  std::vector<Fd> connections;
  for (size_t i = 0; i < kSettings.max_connections; ++i) connections.push_back(connect());
  SocketEnds pair = socket_pair();
  EXPECT_EQ(server->adopt(std::move(pair.ours), "f").error().kind, ErrorKind::kExhausted);
  connections.pop_back();
  EXPECT_TRUE(eventually("room for one", [&] { return server->use().connections == 7; }));
  connections.push_back(connect());
}

}  // namespace
}  // namespace sluice::node
