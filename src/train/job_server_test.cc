#include "train/job_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
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
  void serve(int64_t term) {
    server_.reset();
    server_ = *JobServer::open({.path = folder_.path + "/jobs.sock"}, term, clock_);
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

// Sends the text as it is, and returns the answer until the server ends the connection.
std::string answer_to(const std::string& socket_path, const std::string& text) {
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un at{.sun_family = AF_UNIX};
  socket_path.copy(at.sun_path, sizeof at.sun_path - 1);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
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
