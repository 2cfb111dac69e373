#include "train/job_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "train/link.h"

namespace sluice::train {
namespace {

using testing::HasSubstr;

constexpr Nanos kPatience = Seconds(60);

class Server : public testing::Test {
 protected:
  Server() { serve(1); }
  void serve(int64_t term, const JobServerLimits& limits = {}) {
    server_.reset();
    server_ = *JobServer::open({.path = folder_.path + "/jobs.sock"}, term, clock_, limits);
  }
  void add(const std::string& name = "j") {
    JobSettings settings{.name = name};
    settings.job.batch = 8;
    settings.batch = {8, 8, 0};
    server_->add(name, "key", settings);
  }
  std::shared_ptr<Link> connect(const Hello& hello) {
    return *Link::open({.path = folder_.path + "/jobs.sock"}, hello);
  }
  std::shared_ptr<Link> worker(const std::string& name) {
    return connect({.job = "j", .key = "key", .worker = name});
  }
  template <class M>
  static M next(Link& link) {
    const auto message = link.next(kPatience);
    EXPECT_TRUE(message && std::holds_alternative<M>(*message));
    return message && std::holds_alternative<M>(*message) ? std::get<M>(*message) : M();
  }

  const SteadyClock clock_;
  const TemporaryFolder folder_;
  std::unique_ptr<JobServer> server_;
};

TEST_F(Server, WorkersFormAGenerationAndFindEachOther) {
  add();
  const auto a = worker("a"), b = worker("b");
  EXPECT_EQ(next<Welcome>(*a).term, 1);
  next<Welcome>(*b);
  ASSERT_TRUE(a->send(Loaded{100, 4}).ok());
  ASSERT_TRUE(b->send(Loaded{100, 4}).ok());
  const Form first = next<Form>(*a), second = next<Form>(*b);
  EXPECT_EQ(std::pair(first.rank, second.rank), std::pair(0, 1));
  EXPECT_EQ(first.world, 2);
  ASSERT_TRUE(a->send(StoreSet{"1/address", "here"}).ok());
  EXPECT_EQ(*b->wait_for("1/address", 1), "here");
  EXPECT_EQ(server_->status("j")->members, (std::vector<std::string>{"a", "b"}));
}

TEST_F(Server, AConnectionThatClosesIsACrash) {
  add();
  const auto a = worker("a");
  auto b = worker("b");
  next<Welcome>(*a), next<Welcome>(*b);
  ASSERT_TRUE(a->send(Loaded{100, 4}).ok());
  ASSERT_TRUE(b->send(Loaded{100, 4}).ok());
  next<Form>(*a), next<Form>(*b);
  b.reset();
  EXPECT_TRUE(eventually("the order to stop", [&] { return a->halted(1); }));
  // A wait for the dead one's address ends, too.
  EXPECT_FALSE(a->wait_for("1/never", 1).ok());
  ASSERT_TRUE(a->send(Stopped{1, 5, "lost"}).ok());
  EXPECT_EQ(next<Form>(*a).world, 1);
}

// It may belong to the server before: it tries again.
TEST_F(Server, AWorkerOfAJobThatIsNotThereYetIsTurnedAwayWithoutAWord) {
  const auto early = worker("a");
  EXPECT_FALSE(early->next(kPatience));
  EXPECT_TRUE(early->lost());
  add();
  next<Welcome>(*worker("a"));
}

TEST_F(Server, WhatDoesNotBelongHereIsRefusedInASentence) {
  add();
  const auto why = [&](const Hello& hello) { return next<Refused>(*connect(hello)).error; };
  EXPECT_THAT(why({.job = "j", .key = "other", .worker = "a"}), HasSubstr("has another key"));
  EXPECT_THAT(why({.job = "j", .key = "key", .worker = "a", .version = 3}),
              HasSubstr("speaks version 3"));
  const auto a = worker("a");
  next<Welcome>(*a);
  EXPECT_THAT(why({.job = "j", .key = "key", .worker = "a"}), HasSubstr("named a is here already"));
  ASSERT_TRUE(a->send(Hello{"j", "key", "a"}).ok());
  EXPECT_THAT(next<Refused>(*a).error, HasSubstr("hello is the first message"));
  const auto b = worker("b");
  next<Welcome>(*b);
  server_->remove("j");
  EXPECT_THAT(next<Refused>(*b).error, HasSubstr("the job was removed"));
  EXPECT_THAT(why({.job = "j", .key = "key", .worker = "c"}), HasSubstr("was removed"));
}

Fd connected(const std::string& socket_path) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at{.sun_family = AF_UNIX};
  socket_path.copy(at.sun_path, sizeof at.sun_path - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  return fd;
}

// Sends the text as it is, and returns the answer until the server ends the connection.
std::string answer_to(const std::string& socket_path, const std::string& text) {
  const Fd fd = connected(socket_path);
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = send(fd.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += static_cast<size_t>(n);
  }
  std::string answer;
  char part[4096];
  for (ssize_t n = 0; (n = recv(fd.get(), part, sizeof part, 0)) > 0;)
    answer.append(part, static_cast<size_t>(n));
  return answer;
}

// A text that no worker sends ends its connection, and disturbs no other.
TEST_F(Server, LinesThatAreNoMessagesEndTheirConnectionAlone) {
  add();
  const auto good = worker("good");
  next<Welcome>(*good);
  const std::string hello = to_line(Hello{"j", "key", "bad"});
  const std::pair<std::string, const char*> cases[] = {
      {"GET / HTTP/1.1\r\n\r\n", "refused"},
      {"{\n", "refused"},
      {"[]\n", "refused"},
      {to_line(Leaving{}), "hello is the first message"},
      {hello + "{\"kind\":\"dance\"}\n", "'dance' is not known"},
      {hello + std::string(1000, '[') + "\n", "refused"},
      {hello + std::string(200'000, 'x'), ""}};
  const std::string path = folder_.path + "/jobs.sock";
  for (const auto& [text, said] : cases) EXPECT_THAT(answer_to(path, text), HasSubstr(said));
  ASSERT_TRUE(good->send(StoreSet{"1/k", "v"}).ok());
  EXPECT_EQ(*good->wait_for("1/k", 1), "v");
}

// More than the server has places for, of one user and each silent, while a job trains.
TEST_F(Server, SilentConnectionsKeepNoWorkerAway) {
  serve(1, {.hello = Millis(300), .connections = 40, .strangers = 24});
  add();
  const auto here = worker("here");
  next<Welcome>(*here);
  const std::string path = folder_.path + "/jobs.sock";
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connected(path));
  // One of the same user id may be turned away without a word for as long, and tries again.
  std::shared_ptr<Link> late;
  EXPECT_TRUE(eventually("a worker's welcome", [&] {
    auto link = Link::open({.path = path}, {.job = "j", .key = "key", .worker = "late"});
    if (!link.ok() || !(*link)->next(kPatience)) return false;
    late = *link;
    return true;
  }));
  ASSERT_TRUE(here->send(StoreSet{"1/k", "v"}).ok());
  EXPECT_EQ(*late->wait_for("1/k", 1), "v");
  for (const Fd& fd : silent) {  // each has met its end by itself
    char any = 0;
    EXPECT_LE(recv(fd.get(), &any, 1, 0), 0);
  }
}

TEST_F(Server, AJobHasABoundOfWorkers) {
  serve(1, {.workers = 2});
  add();
  add("other");
  const auto a = worker("a"), b = worker("b"), c = worker("c");
  next<Welcome>(*a), next<Welcome>(*b);
  EXPECT_THAT(next<Refused>(*c).error, HasSubstr("the job has 2 workers"));
  next<Welcome>(*connect({.job = "other", .key = "key", .worker = "c"}));
}

// Its connection is open, but nothing comes from there: a stopped process.
TEST_F(Server, AWorkerThatAnswersNoPingIsGivenUp) {
  serve(1, {.ping = Millis(20), .answer = Millis(200)});
  add();
  const auto good = worker("good");
  next<Welcome>(*good);
  const std::string hello = to_line(Hello{"j", "key", "stopped"});
  const std::string answer = answer_to(folder_.path + "/jobs.sock", hello);
  EXPECT_THAT(answer, HasSubstr("\"ping\""));
  const auto stragglers = server_->status("j")->stragglers;
  ASSERT_EQ(stragglers.size(), 1u);
  EXPECT_EQ(stragglers[0].worker, "stopped");
  EXPECT_FALSE(good->lost());
}

// It holds what it is sent no longer than that, and its reader's lock not at all.
TEST_F(Server, AWorkerThatReadsNothingAndAsksForMuchIsDropped) {
  add();
  const auto good = worker("good");
  next<Welcome>(*good);
  ASSERT_TRUE(good->send(StoreSet{"k", std::string(kLongestValue, 'v')}).ok());
  EXPECT_EQ(good->wait_for("k", 0)->size(), kLongestValue);
  const Fd greedy = connected(folder_.path + "/jobs.sock");
  std::string text = to_line(Hello{"j", "key", "greedy"});
  for (int i = 0; i < 100; ++i) text += to_line(StoreGet{"k"});
  ASSERT_EQ(send(greedy.get(), text.data(), text.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(eventually("its end", [&] {
    pollfd end{greedy.get(), POLLRDHUP, 0};
    return poll(&end, 1, 0) == 1 && (end.revents & (POLLRDHUP | POLLHUP)) != 0;
  }));
  EXPECT_FALSE(good->lost());
}

TEST_F(Server, TheNextServersTermIsHigher) {
  add();
  auto a = worker("a");
  EXPECT_EQ(next<Welcome>(*a).term, 1);
  serve(2);
  EXPECT_TRUE(eventually("the end of the connection", [&] { return a->lost(); }));
  add();
  a = connect({.job = "j", .key = "key", .worker = "a", .generation = 7, .step = 40});
  EXPECT_EQ(next<Welcome>(*a).term, 2);
  ASSERT_TRUE(a->send(Loaded{100, 4}).ok());
  const Form form = next<Form>(*a);
  EXPECT_EQ(form.generation, 8);
  EXPECT_FALSE(form.sync);
  EXPECT_EQ(form.resume, "");
}

}  // namespace
}  // namespace sluice::train
