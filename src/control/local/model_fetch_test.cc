// Models at URLs: fetched once, checked, and never half.
#include "control/local/model_fetch.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/write_all.h"
#include "control/local/model_check.h"
#include "control/local/model_copies.h"
#include "control/local/sha256.h"
#include "tests/support/archive.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"
#include "wire/http/certificates.h"
#include "wire/http/http.h"
#include "wire/http/tls_front.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kDescription[] = R"({"inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],)"
                                R"("outputs":[{"name":"y","datatype":"FP32","shape":[-1,2]}]})";

std::string checksum_of(const std::string& bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.hex();
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Files at their paths; a path of "-> TARGET" redirects.
class FileServer {
 public:
  explicit FileServer(Fd listening)
      : at_(*wire::bound_to(listening)),
        server_(io_, std::move(listening),
                [this](wire::HttpRequest request) -> wire::asio::awaitable<wire::HttpResponse> {
                  co_return answer(std::string(request.target()));
                }),
        thread_([this] { io_.run(); }) {}
  FileServer() : FileServer(*wire::listen_on({.host = "127.0.0.1"})) {}
  ~FileServer() {
    io_.stop();
    thread_.join();
  }

  void put(const std::string& path, const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    files_[path] = bytes;
  }
  int asked(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return asked_[path];
  }
  std::string url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(at_.port) + path;
  }

 private:
  wire::HttpResponse answer(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++asked_[path];
    if (!files_.contains(path)) return wire::error_response(404, "no such file");
    const std::string& bytes = files_[path];
    if (!bytes.starts_with("-> ")) return wire::text_response(bytes);
    wire::HttpResponse away = wire::text_response("elsewhere");
    away.result(302);
    away.set(wire::http::field::location, bytes.substr(3));
    return away;
  }

  std::mutex mutex_;
  std::map<std::string, std::string> files_;
  std::map<std::string, int> asked_;
  boost::asio::io_context io_{1};
  const wire::Endpoint at_;
  wire::HttpServer server_;
  std::thread thread_;
};

// Answers one request with these bytes. Then it closes the connection, or is silent until its peer
// closes it.
class RawServer {
 public:
  RawServer(std::string bytes, bool closes)
      : listening_(*wire::listen_on({.host = "127.0.0.1"})), thread_([this, bytes, closes] {
          const Fd peer(::accept(listening_.get(), nullptr, nullptr));
          char request[4096];
          if (::read(peer.get(), request, sizeof request) <= 0 || !write_all(peer.get(), bytes))
            return;
          while (!closes && ::read(peer.get(), request, sizeof request) > 0) {
          }
        }) {}
  ~RawServer() {
    ::shutdown(listening_.get(), SHUT_RDWR);  // wakes accept()
    thread_.join();
  }
  std::string url() const {
    return "http://127.0.0.1:" + std::to_string(wire::bound_to(listening_)->port) + "/m.pt";
  }

 private:
  const Fd listening_;
  std::thread thread_;
};

class ModelFetchTest : public testing::Test {
 protected:
  ModelSpec model(const std::string& url, const std::string& bytes = "weights") const {
    return {.path = url, .sha256 = checksum_of(bytes)};
  }
  Error fault(const ModelSpec& m) {
    const auto fetched = fetch.file(m);
    EXPECT_FALSE(fetched.ok());
    for (const auto& [name, text] : files()) EXPECT_FALSE(name.ends_with(".pt")) << name;
    return fetched.ok() ? Error() : fetched.error();
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::directory_iterator(settings.folder))
      out[entry.path().filename()] = text_of(entry.path());
    return out;
  }

  const TemporaryFolder folder;
  FetchSettings settings{.folder = folder.path + "/fetched", .ca = "", .limits = {}};
  ModelFetch fetch{settings};
  FileServer server;
};

TEST_F(ModelFetchTest, AFileIsFetchedOnceAndKeptByItsChecksum) {
  const std::string bytes(3'000'000, 'w');
  server.put("/m.pt", bytes);
  const ModelSpec m = model(server.url("/m.pt"), bytes);
  const auto first = fetch.file(m);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_TRUE(text_of(*first) == bytes);
  EXPECT_EQ(*ModelFetch(settings).file(m), *first) << "also after a restart";
  EXPECT_EQ(server.asked("/m.pt"), 1);
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(files().at(m.sha256 + ".used"), m.path);
}

TEST_F(ModelFetchTest, SeveralAtOnceFetchItOnce) {
  server.put("/m.pt", "weights");
  ModelSpec m = model(server.url("/m.pt"));
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, upper = i % 2 == 0] {
      ModelSpec mine = m;
      if (upper) std::ranges::transform(mine.sha256, mine.sha256.begin(), ::toupper);
      good += fetch.file(mine).ok();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(server.asked("/m.pt"), 1);
}

TEST_F(ModelFetchTest, AnotherFileThanTheOneMeantIsRefused) {
  server.put("/m.pt", "other weights");
  const Error why = fault(model(server.url("/m.pt")));
  EXPECT_EQ(why.kind, ErrorKind::kInvalid);
  EXPECT_EQ(why.message, server.url("/m.pt") + ": has the SHA-256 " + checksum_of("other weights") +
                             ", and the function's file wants " + checksum_of("weights") +
                             ". Correct model.sha256 if the file there is the one that you mean");
}

TEST_F(ModelFetchTest, AMissingFileIsNamedWithWhatToDo) {
  const Error why = fault(model(server.url("/gone.pt")));
  EXPECT_EQ(why.kind, ErrorKind::kInvalid);
  EXPECT_EQ(why.message, server.url("/gone.pt") +
                             ": its server answers 404 Not Found. Correct storageUri, or put the "
                             "file there, and apply again");
}

TEST_F(ModelFetchTest, AServerThatIsAwayMayComeBack) {
  std::string url;
  { url = RawServer("", true).url(); }
  const Error why = fault(model(url));
  EXPECT_EQ(why.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(why.message, HasSubstr(url + ": cannot be fetched: "));
  EXPECT_THAT(why.message, HasSubstr("Apply again once its server answers"));
  const RawServer busy("HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy", true);
  EXPECT_EQ(fault(model(busy.url())).kind, ErrorKind::kUnavailable);
}

TEST_F(ModelFetchTest, AnAnswerThatBreaksOffLeavesNothing) {
  const RawServer half("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nweig", true);
  EXPECT_EQ(fault(model(half.url())).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(files().size(), 1u) << "when it was asked for";
}

TEST_F(ModelFetchTest, ALargerFileThanAllowedIsRefusedBeforeItsEnd) {
  settings.limits.bytes = 1000;
  ModelFetch small(settings);
  const RawServer endless("HTTP/1.1 200 OK\r\n\r\n" + std::string(100'000, 'w'), false);
  const auto fetched = small.file(model(endless.url()));
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().message, endless.url() + ": has more than 1000 bytes");
}

TEST_F(ModelFetchTest, ASilentServerIsGivenUp) {
  settings.limits.silence = Millis(50);
  ModelFetch hasty(settings);
  const RawServer silent("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nweig", false);
  EXPECT_EQ(hasty.file(model(silent.url())).error().kind, ErrorKind::kTimeout);
}

TEST_F(ModelFetchTest, ASlowServerIsGivenUp) {
  settings.limits.whole = Millis(100);
  ModelFetch hasty(settings);
  const RawServer silent("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nweig", false);
  const auto fetched = hasty.file(model(silent.url()));
  ASSERT_FALSE(fetched.ok());
  EXPECT_EQ(fetched.error().kind, ErrorKind::kTimeout);
  EXPECT_THAT(fetched.error().message, HasSubstr(": took longer than 0 s"));
}

TEST_F(ModelFetchTest, AFileThatOutlastsPatienceIsFetchedOnAndHoldsUpNoOther) {
  settings.patience = Millis(20);
  settings.limits.silence = Millis(500);
  ModelFetch hasty(settings);
  const RawServer silent("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nweig", false);
  const Error why = hasty.file(model(silent.url())).error();
  EXPECT_EQ(why.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(why.message, HasSubstr(": is being fetched. It is tried again"));
  server.put("/n.pt", "other");
  EXPECT_TRUE(eventually("another model is there",
                         [&] { return hasty.file(model(server.url("/n.pt"), "other")).ok(); }));
  EXPECT_TRUE(eventually("its server is given up", [&] {
    return hasty.file(model(silent.url())).error().kind == ErrorKind::kTimeout;
  }));
}

TEST_F(ModelFetchTest, StopEndsWhatIsBeingFetched) {
  const RawServer silent("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nweig", false);
  std::thread stopper([&] {
    while (!fs::exists(settings.folder + "/" + checksum_of("weights") + ".part"))
      std::this_thread::yield();
    fetch.stop();
  });
  EXPECT_EQ(fault(model(silent.url())).message, "the platform is shutting down");
  stopper.join();
}

TEST_F(ModelFetchTest, RedirectsAreFollowedWithinTheScheme) {
  server.put("/m.pt", "weights");
  server.put("/here.pt", "-> /m.pt");
  server.put("/there.pt", "-> " + server.url("/here.pt"));
  EXPECT_TRUE(fetch.file(model(server.url("/there.pt"))).ok());
  server.put("/round.pt", "-> /round.pt");
  server.put("/ftp.pt", "-> ftp://127.0.0.1/m.pt");
  server.put("/host.pt", "-> //127.0.0.1/m.pt");
  const auto why = [&](const char* path) {
    return fetch.file(model(server.url(path), path)).error().message;
  };
  EXPECT_THAT(why("/round.pt"), HasSubstr("redirects more than 5 times"));
  EXPECT_THAT(why("/ftp.pt"), HasSubstr("redirects to \"ftp://127.0.0.1/m.pt\", which is no http"));
  EXPECT_THAT(why("/host.pt"), HasSubstr("which is no http"));
}

TEST_F(ModelFetchTest, ADescriptionIsReadAnewAndTheLastOneCountsWhileItsServerIsAway) {
  ModelSpec m;
  {
    FileServer own;
    own.put("/m.json", "one");
    m = model(own.url("/m.pt"));
    EXPECT_EQ(fetch.description(m).value(), "one");
    own.put("/m.json", "two");
    EXPECT_EQ(fetch.description(m).value(), "two");
  }
  EXPECT_EQ(fetch.description(m).value(), "two");
  const auto none = fetch.description(model(server.url("/m.pt"), "others"));
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message, HasSubstr("/m.json: its server answers 404"));
  EXPECT_THAT(none.error().message, HasSubstr("model.inputs, model.outputs"));
}

// A file server behind TLS, for localhost.
class SecureFetch : public ModelFetchTest {
 protected:
  SecureFetch() : secured_(*wire::listen_on({.path = folder.path + "/files.sock"})) {
    const wire::TlsIdentity own =
        *wire::issue(authority_, {"localhost", {"localhost"}, std::chrono::hours(1)});
    std::ofstream(folder.path + "/tls.crt") << own.certificate;
    std::ofstream(folder.path + "/tls.key") << own.key;
    Fd listening = *wire::listen_on({.host = "127.0.0.1"});
    url_ = "https://localhost:" + std::to_string(wire::bound_to(listening)->port) + "/m.pt";
    front_ = std::make_unique<wire::TlsFront>(
        std::move(listening), wire::TlsFrontSettings{folder.path, "", folder.path + "/files.sock"});
    secured_.put("/m.pt", "weights");
  }

  const wire::TlsIdentity authority_ = *wire::make_authority("test", std::chrono::hours(1));
  FileServer secured_;
  std::string url_;
  std::unique_ptr<wire::TlsFront> front_;
};

TEST_F(SecureFetch, ACertificateOfTheAuthorityIsTrusted) {
  settings.ca = authority_.certificate;
  ModelFetch trusting(settings);
  const auto fetched = trusting.file(model(url_));
  ASSERT_TRUE(fetched.ok()) << fetched.error().message;
  EXPECT_EQ(text_of(*fetched), "weights");
}

TEST_F(SecureFetch, AnotherCertificateIsNot) {
  EXPECT_THAT(fault(model(url_)).message, HasSubstr("certificate verify failed"));
  settings.ca = authority_.certificate;
  ModelFetch trusting(settings);
  std::string by_address = url_;
  by_address.replace(by_address.find("localhost"), 9, "127.0.0.1");
  EXPECT_FALSE(trusting.file(model(by_address)).ok()) << "the certificate is for localhost";
  EXPECT_EQ(secured_.asked("/m.pt"), 0);
}

// Makes it look as if it had been asked for two hours ago.
void age(const std::string& path) {
  timespec times[2];
  struct stat state {};
  ASSERT_EQ(::stat(path.c_str(), &state), 0);
  times[0] = times[1] = {state.st_mtim.tv_sec - 7200, 0};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST_F(ModelFetchTest, WhatNoCopyLinksToIsRemovedAnHourAfterItsLastUse) {
  for (const char* name : {"old", "new", "linked"}) {
    server.put(std::string("/") + name, name);
    ASSERT_TRUE(fetch.file(model(server.url(std::string("/") + name), name)).ok());
  }
  const auto path = [&](const std::string& bytes, const char* ending) {
    return settings.folder + "/" + checksum_of(bytes) + ending;
  };
  age(path("old", ".used"));
  age(path("linked", ".used"));
  fs::create_hard_link(path("linked", ".pt"), folder.path + "/copy");
  std::ofstream(path("dead", ".part")) << "half of what a process fetched that died";
  std::ofstream(settings.folder + "/notes") << "a stranger's";
  fetch.sweep();
  EXPECT_FALSE(fs::exists(path("old", ".pt")));
  EXPECT_FALSE(fs::exists(path("old", ".used")));
  EXPECT_FALSE(fs::exists(path("dead", ".part")));
  for (const std::string& stays :
       {path("new", ".pt"), path("linked", ".pt"), settings.folder + "/notes"})
    EXPECT_TRUE(fs::exists(stays)) << stays;
}

// ---- as the loop's port --------------------------------------------------------------------

class FetchedModel : public ModelFetchTest {
 protected:
  FetchedModel() {
    server.put("/m.pt", bytes);
    server.put("/m.json", kDescription);
  }
  const std::string bytes = archive_of("weights");
  ModelCopies copies{folder.path + "/models", check_model_file};
  ModelSpec m = model(server.url("/m.pt"), bytes);
};

TEST_F(FetchedModel, IsCheckedDescribedAndKeptAsAFileIs) {
  const auto checked = copies.check(m);
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_EQ(m.path, server.url("/m.pt"));
  EXPECT_EQ(m.inputs.at(0).name, "x");
  auto kept = copies.keep(m);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  const std::string copy = copies.for_start(m).path;
  EXPECT_EQ(text_of(copy), bytes);
  struct stat state {};
  ASSERT_EQ(::stat(copy.c_str(), &state), 0);
  EXPECT_EQ(state.st_nlink, 2u) << "it takes its size once";
  EXPECT_EQ(copies.for_user(copy + ": no", m), m.path + ": no");
  ModelCopies restarted(folder.path + "/models", check_model_file);
  ModelSpec again = model(m.path, bytes);
  ASSERT_TRUE(restarted.check(again).ok());
  ASSERT_TRUE(restarted.identify(again).ok());
  EXPECT_EQ(again.content, m.content);
  EXPECT_EQ(server.asked("/m.pt"), 1);
}

TEST_F(FetchedModel, InItsOwnFileNeedsNoDescription) {
  m.inputs = {{"x", "FP32", {-1, 2}}};
  m.outputs = m.inputs;
  ASSERT_TRUE(copies.check(m).ok());
  EXPECT_EQ(server.asked("/m.json"), 0);
}

TEST_F(FetchedModel, AFaultNamesItsUrl) {
  server.put("/page.pt", "<html>login</html>");
  ModelSpec page = model(server.url("/page.pt"), "<html>login</html>");
  page.inputs = page.outputs = {{"x", "FP32", {-1, 2}}};
  EXPECT_THAT(copies.check(page).error().message,
              HasSubstr(server.url("/page.pt") + ": is no TorchScript model"));
  server.put("/m.json", "{");
  EXPECT_THAT(copies.check(m).error().message, HasSubstr(server.url("/m.json") + ": "));
}

}  // namespace
}  // namespace sluice::control
