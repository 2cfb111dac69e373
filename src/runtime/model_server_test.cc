// A real server in this process, driven over raw sockets.
#include "runtime/model_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

namespace sluice::runtime {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// x = 2a. Runs when allowed to, and remembers each run's number of inferences. Refuses 13.
class Doubler : public Model {
 public:
  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs, Gate* gate) override {
    gate->pass();
    {
      std::unique_lock lock(mutex_);
      ++entered_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !held_; });
      runs_.push_back(inputs[0].shape[0]);
    }
    Tensor out = inputs[0];
    out.name = "x";
    for (size_t i = 0; i < out.data.size(); ++i) {
      if (out.data[i] == 13) return Error{ErrorKind::kInvalid, "13 is out of range"};
      out.data[i] = static_cast<char>(out.data[i] * 2);
    }
    return std::vector<Tensor>{out};
  }
  void set_threads(int) override {}

  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  void wait_entered(int runs) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entered_ >= runs; });
  }
  std::vector<int64_t> runs() {
    const std::lock_guard lock(mutex_);
    return runs_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int entered_ = 0;
  std::vector<int64_t> runs_;
};

// A client's side of one connection; every wait is bounded.
class Connection {
 public:
  explicit Connection(const wire::Endpoint& server) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    server.path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool connected() const { return connected_; }

  Connection& send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) break;
      text.remove_prefix(static_cast<size_t>(n));
    }
    return *this;
  }
  void close() { fd_.reset(); }

  // Returns one whole response, head and body; a partial one if the server closes or 20 s pass.
  std::string response() {
    size_t head;
    while ((head = received_.find("\r\n\r\n")) == std::string::npos)
      if (!receive()) return std::exchange(received_, "");
    const size_t at = received_.find("\r\nContent-Length: ");
    const size_t length = head + 4 + (at < head ? std::stoul(received_.substr(at + 18)) : 0);
    while (received_.size() < length)
      if (!receive()) break;
    std::string whole = received_.substr(0, length);
    received_.erase(0, length);
    return whole;
  }
  bool closed() { return received_.empty() && !receive(); }

 private:
  bool receive() {
    pollfd p{fd_.get(), POLLIN, 0};
    if (::poll(&p, 1, 20'000) <= 0) return false;
    char buffer[65536];
    const ssize_t n = ::recv(fd_.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) return false;
    received_.append(buffer, static_cast<size_t>(n));
    return true;
  }

  Fd fd_;
  bool connected_ = false;
  std::string received_;
};

std::string request(const std::string& verb, const std::string& path, const std::string& body = "",
                    const std::string& headers = "") {
  return verb + " " + path + " HTTP/1.1\r\nHost: x\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string infer_body(int value, const std::string& id = "") {
  return (id.empty() ? std::string("{") : "{\"id\":\"" + id + "\",") +
         R"("inputs":[{"name":"a","datatype":"INT8","shape":[1,2],"data":[)" +
         std::to_string(value) + ",1]}]}";
}
std::string infer(int value, const std::string& headers = "") {
  return request("POST", "/v2/models/m/infer", infer_body(value), headers);
}

std::string compressed(const std::string& text) {
  uLongf size = compressBound(text.size());
  std::string out(size, 0);
  compress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
           text.size());
  out.resize(size);
  return out;
}

class ModelServerTest : public testing::Test {
 protected:
  void SetUp() override { start({.max_size = 4}); }
  void TearDown() override { stop(); }

  // `runs`: inferences that run at a time; 0: as many as a request may bring.
  void start(Batching batching, wire::HttpLimits limits = {}, int runs = 0) {
    if (runs == 0) runs = batching.max_size;
    stop();
    endpoint_ = {.path = testing::TempDir() + "m" + std::to_string(getpid()) + ".sock"};
    ServedModel served{.name = "m", .version = "3", .batching = batching, .batch = runs};
    served.file = {
        .name = "m",
        .platform = "sluice_builtin",
        .spec = {.inputs = {{"a", "INT8", {-1, 2}}}, .outputs = {{"x", "INT8", {-1, 2}}}}};
    Fd listening = std::move(*wire::listen_on(endpoint_));
    io_ = std::make_unique<wire::asio::io_context>(1);
    statistics_ = std::make_unique<Statistics>();
    runner_ = std::make_unique<Runner>(model_, gate_, Batching{runs, batching.max_delay}, 1, clock_,
                                       *statistics_);
    server_ = std::make_unique<ModelServer>(*io_, std::move(listening), std::move(served), *runner_,
                                            *statistics_, limits);
    thread_ = std::thread([this] { io_->run(); });
  }
  // Drains as an instance does; returns when all accepted requests have been answered.
  void stop() {
    if (!thread_.joinable()) return;
    wire::asio::post(*io_, [this] { server_->drain([this] { io_->stop(); }); });
    thread_.join();
    server_.reset();
    runner_.reset();
  }

  Connection connect() { return Connection(endpoint_); }
  std::string ask(const std::string& text) { return connect().send(text).response(); }

  Doubler model_;
  Gate gate_;
  SteadyClock clock_;
  wire::Endpoint endpoint_;
  std::unique_ptr<wire::asio::io_context> io_;
  std::unique_ptr<Statistics> statistics_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<ModelServer> server_;
  std::thread thread_;
};

TEST_F(ModelServerTest, AnswersAndSaysHowManyInferencesItWas) {
  const std::string answer = ask(infer(5, "X-Request-Id: r7\r\ntraceparent: 00-ab-cd-01\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("Sluice-Inferences: 1\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Request-Id: r7\r\n"));
  EXPECT_THAT(answer, HasSubstr("traceparent: 00-ab-cd-01\r\n"));
  EXPECT_THAT(answer, HasSubstr(R"("model_name":"m","model_version":"3")"));
  EXPECT_THAT(answer, HasSubstr(R"("data":[10,2])"));
}

TEST_F(ModelServerTest, EchoesTheIdAndKnowsVersions) {
  const std::string body = infer_body(1, "id-1");
  EXPECT_THAT(ask(request("POST", "/v2/models/m/versions/3/infer", body)),
              HasSubstr(R"("id":"id-1")"));
  EXPECT_THAT(ask(request("POST", "/v2/models/m/versions/4/infer", body)),
              StartsWith("HTTP/1.1 404"));
}

TEST_F(ModelServerTest, BinaryGoesBothWays) {
  const std::string json =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[2,2],"parameters":{"binary_data_size":4}}],)"
      R"("outputs":[{"name":"x","parameters":{"binary_data":true}}]})";
  const std::string answer =
      ask(request("POST", "/v2/models/m/infer", json + "\1\2\3\4",
                  "Inference-Header-Content-Length: " + std::to_string(json.size()) + "\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/octet-stream\r\n"));
  EXPECT_THAT(answer, HasSubstr("Inference-Header-Content-Length: "));
  EXPECT_THAT(answer, HasSubstr("Sluice-Inferences: 2\r\n"));
  EXPECT_TRUE(answer.ends_with("}]}\2\4\6\x08")) << answer;
}

TEST_F(ModelServerTest, ARawBodyIsTheInput) {
  const std::string answer =
      ask(request("POST", "/v2/models/m/infer", "\5\6", "Inference-Header-Content-Length: 0\r\n"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(answer.ends_with("\x0a\x0c"));
}

TEST_F(ModelServerTest, PathsAndVerbs) {
  struct Case {
    const char *verb, *path;
    int status;
    const char* has;
  };
  const Case cases[] = {
      {"GET", "/v2", 200, R"("extensions")"},
      {"GET", "/v2/", 200, R"("binary_tensor_data")"},
      {"GET", "/v2/health/live", 200, "true"},
      {"GET", "/v2/health/ready", 200, "true"},
      {"HEAD", "/v2/health/ready", 200, ""},
      {"GET", "/v2/models", 200, R"(["m"])"},
      {"GET", "/v2/models/m", 200, R"("shape":[-1,2])"},
      {"GET", "/v2/models/m/versions/3", 200, R"("versions":["3"])"},
      {"GET", "/v2/models/m/ready", 200, R"("ready":true)"},
      {"GET", "/v2/models/m/versions/3/ready", 200, R"("ready":true)"},
      {"GET", "/v2/models/m/config", 200, R"("max_batch_size":4)"},
      {"GET", "/v2/models/m/config", 200, R"("dims":[2])"},
      {"GET", "/v2/models/m/config", 200, R"("dynamic_batching")"},
      {"GET", "/v2/models/m/stats", 200, R"("inference_count")"},
      {"GET", "/v2/models/stats", 200, R"("model_stats")"},
      {"POST", "/v2/repository/index", 200, R"("state":"READY")"},
      {"GET", "/v2/models/other", 404, "error"},
      {"GET", "/v2/models/m/versions/4", 404, "error"},
      {"GET", "/v2/models/m/what", 404, "error"},
      {"GET", "/v2/models/m/stats/more", 404, "error"},
      {"GET", "/v2/health", 404, "error"},
      {"GET", "/v1/models/m", 404, "error"},
      {"GET", "/", 404, "error"},
      {"GET", "/v2/models/%zz", 400, "percent"},
      {"POST", "/v2/repository/models/other/load", 404, "error"},
      {"POST", "/v2/repository/what", 404, "error"},
      {"GET", "/v2/models/m/infer", 405, "POST"},
      {"PUT", "/v2/models/m/infer", 405, "Allow: POST"},
      {"POST", "/v2/models/m", 405, "Allow: GET"},
      {"DELETE", "/v2/health/live", 405, "Allow: GET"},
      {"GET", "/v2/repository/index", 405, "Allow: POST"},
  };
  for (const Case& c : cases) {
    // Closing ends the answer to HEAD, which announces a body that does not come.
    const std::string answer = ask(request(c.verb, c.path, "", "Connection: close\r\n"));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 " + std::to_string(c.status))) << c.verb << c.path;
    EXPECT_THAT(answer, HasSubstr(c.has)) << c.verb << c.path;
  }
}

TEST_F(ModelServerTest, VersionsThatServeBesideItAreToldWhereTheGatewayKnowsThem) {
  const auto about = [&](const char* path, const char* header) {
    return ask(request("GET", path, "", header));
  };
  EXPECT_THAT(about("/v2/models/m", ""), HasSubstr(R"("versions":["3"])"));
  EXPECT_THAT(about("/v2/models/m", "Sluice-Versions: 2,3\r\n"),
              HasSubstr(R"("versions":["2","3"])"));
  EXPECT_THAT(about("/v2/models/m/config", "Sluice-Versions: 2,3\r\n"),
              HasSubstr(R"({"specific":{"versions":[2,3]}})"));
}

TEST(ModelConfig, ATensorWithoutADimensionIsReshaped) {
  ServedModel m{.name = "m"};
  m.file.spec = {.inputs = {{"a", "FP32", {-1}}}, .outputs = {{"x", "BYTES", {-1, 3}}}};
  const auto config = model_config(m, {});
  EXPECT_EQ(config["input"][0]["dims"], nlohmann::json({1}));
  EXPECT_EQ(config["input"][0]["reshape"]["shape"], nlohmann::json::array());
  EXPECT_EQ(config["output"][0]["dims"], nlohmann::json({3}));
  EXPECT_FALSE(config["output"][0].contains("reshape"));
}

TEST_F(ModelServerTest, ACompressedBodyIsReadAndBoundedAsItIsInflated) {
  start({.max_size = 4}, {.body_bytes = 1000});
  const auto sent = [](const std::string& text, const std::string& header = "") {
    return request("POST", "/v2/models/m/infer", compressed(text),
                   "Content-Encoding: deflate\r\n" + header);
  };
  EXPECT_THAT(ask(sent(infer_body(9))), HasSubstr("[18,2]"));
  EXPECT_THAT(ask(infer(9, "Content-Encoding: Identity\r\n")), HasSubstr("[18,2]"));
  EXPECT_THAT(ask(sent(infer_body(9), "Sluice-Body-Limit: 20\r\n")), StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask(sent(infer_body(9) + std::string(1000, ' '))), StartsWith("HTTP/1.1 413"));
}

// 64 KiB of gzip may become 64 MiB of JSON, and several times that when it is parsed.
TEST_F(ModelServerTest, ACompressedBodyIsNoLargerThanTheModelNeeds) {
  const auto inflating_to = [](size_t bytes) {
    std::string text = infer_body(9);
    text.resize(bytes, ' ');
    return request("POST", "/v2/models/m/infer", compressed(text), "Content-Encoding: deflate\r\n");
  };
  const size_t most = (1 << 20) + 4 * 2 * 32;
  EXPECT_THAT(ask(inflating_to(most)), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(inflating_to(most + 1)),
              AllOf(StartsWith("HTTP/1.1 413"),
                    HasSubstr("inflates to more than the " + std::to_string(most))));
}

TEST_F(ModelServerTest, BadRequestsAreToldWhy) {
  EXPECT_THAT(ask(request("POST", "/v2/models/m/infer", "{")), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(
      ask(request("POST", "/v2/models/m/infer", infer_body(1), "Content-Encoding: gzip\r\n")),
      StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(request("POST", "/v2/models/m/infer", infer_body(1), "Content-Encoding: br\r\n")),
              AllOf(StartsWith("HTTP/1.1 415"), HasSubstr("gzip, deflate and identity")));
  const std::string five =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[5,2],"data":[1,1,1,1,1,1,1,1,1,1]}]})";
  EXPECT_THAT(ask(request("POST", "/v2/models/m/infer", five)),
              HasSubstr("a batch of 5; the function's maxBatchSize allows 1 to 4"));
}

TEST_F(ModelServerTest, UnloadMakesItUnavailableUntilItIsLoaded) {
  EXPECT_THAT(ask(request("POST", "/v2/repository/models/m/unload")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(infer(1)), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(ask(request("GET", "/v2/models/m/ready")), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(ask(request("POST", "/v2/repository/index")), HasSubstr("UNAVAILABLE"));
  EXPECT_THAT(ask(request("POST", "/v2/repository/index", R"({"ready":true})")),
              HasSubstr("\r\n[]"));
  EXPECT_THAT(ask(request("POST", "/v2/repository/models/m/load")), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(ask(infer(1)), StartsWith("HTTP/1.1 200"));
}

TEST_F(ModelServerTest, RequestsThatWaitTogetherRunTogetherAndGetTheirOwnAnswers) {
  model_.hold();
  Connection first = connect();
  first.send(infer(1));
  model_.wait_entered(1);
  // While one runs, the others gather.
  std::vector<Connection> others;
  for (int i = 2; i <= 5; ++i) {
    others.push_back(connect());
    others.back().send(infer(i, "Sluice-More: " + std::to_string(5 - i) + "\r\n"));
  }
  model_.release();
  EXPECT_THAT(first.response(), HasSubstr("[2,2]"));
  for (int i = 2; i <= 5; ++i)
    EXPECT_THAT(others[static_cast<size_t>(i - 2)].response(),
                HasSubstr("[" + std::to_string(2 * i) + ",2]"));
  int64_t inferences = 0;
  for (const int64_t n : model_.runs()) inferences += n;
  EXPECT_EQ(inferences, 5);
}

// The policy decides what runs at a time, the function what a client may send.
TEST_F(ModelServerTest, ARequestLargerThanTheBatchThatRunsIsServedInParts) {
  struct Case {
    int runs;
    std::vector<int64_t> parts;
  };
  const Case cases[] = {{1, {1, 1, 1, 1, 1}}, {2, {2, 2, 1}}, {5, {5}}, {8, {5}}};
  const std::string five =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[5,2],"data":[1,2,3,4,5,6,7,8,9,10]}]})";
  for (const Case& c : cases) {
    SCOPED_TRACE(c.runs);
    start({.max_size = 8}, {}, c.runs);
    const size_t before = model_.runs().size();
    const std::string answer = ask(request("POST", "/v2/models/m/infer", five));
    EXPECT_THAT(answer, HasSubstr(R"("shape":[5,2],"data":[2,4,6,8,10,12,14,16,18,20])"));
    EXPECT_THAT(answer, HasSubstr("Sluice-Inferences: 5\r\n"));
    const std::vector<int64_t> all = model_.runs();
    EXPECT_EQ(std::vector<int64_t>(all.begin() + static_cast<ptrdiff_t>(before), all.end()),
              c.parts);
    EXPECT_THAT(ask(request("GET", "/v2/models/m/config")), HasSubstr(R"("max_batch_size":8)"));
  }
}

TEST_F(ModelServerTest, ARequestInPartsFailsAsOne) {
  start({.max_size = 4}, {}, 1);
  const std::string bad =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[2,2],"data":[1,1,13,1]}]})";
  EXPECT_THAT(ask(request("POST", "/v2/models/m/infer", bad)), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(ask(infer(1)), StartsWith("HTTP/1.1 200"));
}

// `sequence_id`, `user` and the like differ for each request, and no model reads them.
TEST_F(ModelServerTest, RequestsWithDifferentParametersRunTogether) {
  start({.max_size = 2, .max_delay = Seconds(10)});
  Connection a = connect(), b = connect();
  const auto with = [](const char* parameters) {
    return request("POST", "/v2/models/m/infer",
                   std::string(R"({"parameters":)") + parameters +
                       R"(,"inputs":[{"name":"a","datatype":"INT8","shape":[1,2],"data":[1,1]}]})");
  };
  a.send(with(R"({"sequence_id":1,"user":"anna"})"));
  b.send(with(R"({"sequence_id":2,"user":"bert"})"));
  EXPECT_THAT(a.response(), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(b.response(), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(model_.runs(), std::vector<int64_t>{2});
}

TEST_F(ModelServerTest, ARequestThatBreaksABatchFailsAlone) {
  start({.max_size = 3, .max_delay = Seconds(10)});
  std::vector<Connection> clients;
  for (const int value : {1, 13, 3}) {
    clients.push_back(connect());
    clients.back().send(infer(value));
  }
  EXPECT_THAT(clients[0].response(), HasSubstr("[2,2]"));
  EXPECT_THAT(clients[1].response(), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(clients[2].response(), HasSubstr("[6,2]"));
}

TEST_F(ModelServerTest, PipelinedRequestsAreAnsweredInOrder) {
  std::string all;
  for (int i = 20; i < 40; ++i) all += infer(i);
  Connection c = connect();
  c.send(all);
  for (int i = 20; i < 40; ++i)
    EXPECT_THAT(c.response(), HasSubstr("[" + std::to_string(2 * i) + ",2]"));
}

TEST_F(ModelServerTest, ARequestMayComeByteByByte) {
  Connection c = connect();
  for (const char byte : infer(21)) c.send(std::string_view(&byte, 1));
  EXPECT_THAT(c.response(), HasSubstr("[42,2]"));
}

TEST_F(ModelServerTest, ASlowSenderIsCutOff) {
  start({.max_size = 4}, {.idle = Millis(50), .request = Millis(50)});
  Connection c = connect();
  c.send(infer(1).substr(0, 60));
  EXPECT_THAT(c.response(), Not(HasSubstr("200")));
  EXPECT_TRUE(c.closed());
  EXPECT_THAT(ask(infer(1)), StartsWith("HTTP/1.1 200"));
}

TEST_F(ModelServerTest, AChunkedBodyIsOneBody) {
  const std::string body = infer_body(7);
  std::string text =
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char byte : body) text += std::string("1\r\n") + byte + "\r\n";
  EXPECT_THAT(ask(text + "0\r\n\r\n"), HasSubstr("[14,2]"));
}

TEST_F(ModelServerTest, ExpectContinueIsAnswered) {
  Connection c = connect();
  const std::string text = infer(4, "Expect: 100-continue\r\n");
  const size_t head = text.find("\r\n\r\n") + 4;
  c.send(text.substr(0, head));
  EXPECT_THAT(c.response(), StartsWith("HTTP/1.1 100"));
  c.send(text.substr(head));
  EXPECT_THAT(c.response(), HasSubstr("[8,2]"));
}

TEST_F(ModelServerTest, ABodyOverTheLimitIsRefusedBeforeItComes) {
  start({.max_size = 4}, {.body_bytes = 1000});
  EXPECT_THAT(ask("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(ask(infer(1)), StartsWith("HTTP/1.1 200"));
}

TEST_F(ModelServerTest, GarbageIsRefusedAndHurtsNobody) {
  const std::string cases[] = {
      "\r\n\r\n\r\n",
      "GET\r\n\r\n",
      "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
      "POST /v2/models/m/infer HTTP/9.9\r\n\r\n",
      "POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
      "POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}",
      "POST /v2/models/m/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "GET /v2 HTTP/1.1\r\nno colon\r\n\r\n",
  };
  for (const std::string& text : cases) EXPECT_THAT(ask(text), StartsWith("HTTP/1.1 400")) << text;
  EXPECT_THAT(ask("GET /v2 HTTP/1.1\r\nLong: " + std::string(100'000, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431"));
  EXPECT_THAT(ask(infer(1)), StartsWith("HTTP/1.1 200"));
}

TEST_F(ModelServerTest, ClientsThatGoAwayHurtNobody) {
  model_.hold();
  Connection running = connect(), half = connect(), waiting = connect(), stays = connect();
  running.send(infer(1));
  model_.wait_entered(1);
  half.send(infer(2).substr(0, 50));
  waiting.send(infer(3));
  stays.send(infer(4));
  running.close();
  half.close();
  waiting.close();
  model_.release();
  EXPECT_THAT(stays.response(), HasSubstr("[8,2]"));
}

TEST_F(ModelServerTest, DrainAnswersWhatWasAcceptedAndNothingElse) {
  model_.hold();
  Connection idle = connect(), running = connect();
  idle.send(request("GET", "/v2"));
  idle.response();
  running.send(infer(1));
  model_.wait_entered(1);
  std::future<void> drained = std::async(std::launch::async, [this] { stop(); });
  EXPECT_TRUE(idle.closed());
  model_.release();
  EXPECT_THAT(running.response(), HasSubstr("[2,2]"));
  drained.get();
  EXPECT_FALSE(connect().connected());
}

TEST_F(ModelServerTest, StatisticsCountRequestsInferencesAndExecutions) {
  start({.max_size = 2, .max_delay = Seconds(10)});
  Connection a = connect(), b = connect();
  a.send(infer(1));
  b.send(infer(2));
  a.response();
  b.response();
  ask(infer(13, "Sluice-More: 0\r\n"));
  const auto stats = wire::to_json("m", "3", statistics_->all());
  EXPECT_EQ(stats["inference_count"], 2);
  EXPECT_EQ(stats["execution_count"], 1);
  EXPECT_EQ(stats["inference_stats"]["success"]["count"], 2);
  EXPECT_EQ(stats["inference_stats"]["fail"]["count"], 1);
  EXPECT_EQ(stats["batch_stats"][0]["batch_size"], 2);
  EXPECT_EQ(stats["batch_stats"][0]["compute_infer"]["count"], 1);
}

// The gateway sums what the answers report.
TEST_F(ModelServerTest, AnswersReportWhatTheyTook) {
  start({.max_size = 5}, {}, 2);  // two and two and one
  const std::string five =
      R"({"inputs":[{"name":"a","datatype":"INT8","shape":[5,2],"data":[1,2,3,4,5,6,7,8,9,10]}]})";
  const std::string answer = ask(request("POST", "/v2/models/m/infer", five));
  const size_t at = answer.find("Sluice-Compute: ");
  ASSERT_NE(at, answer.npos) << answer;
  const auto report = wire::compute_report_from(
      std::string_view(answer).substr(at + 16, answer.find('\r', at) - at - 16));
  ASSERT_TRUE(report) << answer;
  ASSERT_EQ(report->parts.size(), 2u);
  EXPECT_EQ(report->parts[0].batch, 2);
  EXPECT_EQ(report->parts[0].executions, 2);
  EXPECT_EQ(report->parts[1].batch, 1);
  EXPECT_EQ(report->parts[1].executions, 1);
}

}  // namespace
}  // namespace sluice::runtime
