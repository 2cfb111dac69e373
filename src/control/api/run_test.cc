// The control process with a node daemon and a gateway that take connections and answer nothing,
// like stopped processes.
#include "control/api/run.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <mutex>
#include <semaphore>
#include <thread>

#include "control/api/kept_answers.h"
#include "control/local/local_ports.h"
#include "tests/support/archive.h"
#include "tests/support/eventually.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

using nlohmann::json;
using wire::http::verb;

// Two sockets that nothing accepts from.
struct HungPeers {
  HungPeers() {
    std::filesystem::create_directory(folder.path + "/run");
    node = std::move(*wire::listen_on({.path = socket("node")}));
    gateway = std::move(*wire::listen_on({.path = socket("gateway")}));
  }
  std::string socket(const std::string& name) const {
    return folder.path + "/run/" + name + ".sock";
  }

  const TemporaryFolder folder;
  Fd node, gateway;
};

// ---- the cluster -----------------------------------------------------------------------------

// Returns all bytes that a hand-served peer received up to the end.
std::string received(const Fd& connection) {
  std::string all;
  char chunk[4096];
  for (ssize_t n; (n = ::recv(connection.get(), chunk, sizeof(chunk), 0)) > 0;)
    all.append(chunk, static_cast<size_t>(n));
  return all;
}

StartOrder start_of(const std::string& id) {
  StartOrder order;
  order.instance.id = id;
  return order;
}

void answer(const Fd& connection, const std::string& body) {
  const std::string all =
      "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  EXPECT_EQ(::send(connection.get(), all.data(), all.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(all.size()));
}

// The calls themselves would wait for an hour.
TEST(HungCluster, OrdersDoNotWaitForAPeerAndAreNotSentLater) {
  HungPeers peers;
  auto cluster =
      std::make_unique<LocalCluster>(peers.socket("node"), peers.socket("gateway"), Seconds(3600));
  cluster->poll();
  EXPECT_EQ(cluster->start(start_of("a")).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(cluster->set_drained("cpu0", true).error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(eventually("the peers to be away", [&] { return cluster->settled(); }));
  const Observation o = cluster->observe();
  EXPECT_TRUE(o.nodes.empty()) << "it has never answered";
  EXPECT_FALSE(all_gateways_there(o));

  const Fd connection(::accept(peers.node.get(), nullptr, nullptr));
  peers.node.reset();
  peers.gateway.reset();
  ::shutdown(connection.get(), SHUT_WR);  // the end of the call
  cluster.reset();
  const std::string sent = received(connection);
  EXPECT_NE(sent.find("GET /v1/state"), std::string::npos);
  EXPECT_EQ(sent.find("POST"), std::string::npos) << sent;
  EXPECT_EQ(sent.find("PATCH"), std::string::npos) << sent;
}

TEST(HungCluster, APeerThatAnswersLateIsThereAgain) {
  HungPeers peers;
  std::counting_semaphore<> quiet(0);
  LocalCluster cluster(peers.socket("node"), peers.socket("gateway"), Seconds(3600));
  cluster.on_settled([&] { quiet.release(); });
  cluster.poll();
  EXPECT_FALSE(any_node_there(cluster.observe()));
  peers.gateway.reset();  // its call fails
  quiet.acquire();
  const Fd connection(::accept(peers.node.get(), nullptr, nullptr));
  answer(connection, R"({"boot_id":"the boot","enforcement":"by cgroups"})");
  quiet.acquire();
  const Observation o = cluster.observe();
  EXPECT_TRUE(any_node_there(o));
  EXPECT_EQ(o.nodes[0].node.boot_id, "the boot");
  EXPECT_GT(o.nodes[0].seen, 0);
  EXPECT_FALSE(all_gateways_there(o));
  const Observation later = cluster.observe();
  EXPECT_FALSE(any_node_there(later));  // it has not been polled again
  EXPECT_EQ(later.nodes[0].enforcement, "by cgroups");
}

TEST(LocalCluster, WhatTheGatewayCountsOfInstancesIsObservedById) {
  HungPeers peers;
  std::counting_semaphore<> quiet(0);
  LocalCluster cluster(peers.socket("node"), peers.socket("gateway"), Seconds(3600));
  cluster.on_settled([&] { quiet.release(); });
  cluster.poll();
  peers.node.reset();  // its call fails
  quiet.acquire();
  const Fd connection(::accept(peers.gateway.get(), nullptr, nullptr));
  answer(connection, R"({"started": 5, "told": 1, "version": 1, "functions": [
      {"name": "default/f", "requests": 9, "instances": [
        {"id": "b", "in_flight": 2, "answered": 7, "inferences": 14, "late": 3, "slow": 2, "busy_us": 3000,
         "latency_us": {"sum_ns": 35000000, "buckets": [[99, 7], [-1, 2], "x"]},
         "body_bytes": {"sum": 700, "buckets": [[7, 7]]}},
        {"id": "a", "answered": 1, "overdue_us": 9}]},
      {"name": "default/g", "requests": 1}]})");
  quiet.acquire();
  const Observation o = cluster.observe();
  const ObservedGateway& g = o.gateways.at(0);
  ASSERT_EQ(g.traffic.size(), 2u);
  const std::vector<ObservedAnswers>& instances = g.traffic[0].instances;
  ASSERT_EQ(instances.size(), 2u);
  EXPECT_EQ(instances[0].instance, "a");
  EXPECT_EQ(instances[0].answered, 1u);
  EXPECT_EQ(instances[1].instance, "b");
  EXPECT_EQ(instances[1].in_flight, 2);
  EXPECT_EQ(instances[1].answered, 7u);
  EXPECT_EQ(instances[1].inferences, 14u);
  EXPECT_EQ(instances[1].late, 3u);
  EXPECT_EQ(instances[1].slow, 2u);
  EXPECT_EQ(instances[1].answering, Millis(3));
  ASSERT_NE(instances[1].spread, nullptr);
  EXPECT_EQ(instances[1].spread->latency.count(), 7u);
  EXPECT_EQ(instances[1].spread->latency.mean(), Millis(5));
  EXPECT_EQ(instances[1].spread->body_bytes.mean(), 100);
  EXPECT_EQ(instances[0].spread, nullptr);
  EXPECT_TRUE(g.traffic[1].instances.empty());
  EXPECT_EQ(g.overdue, (std::map<InstanceId, Nanos>{{"a", Micros(9)}}));
}

// A gateway that accepts tables, and changes of its own version.
TEST(LocalCluster, RoutesAreSentInPartsToAGatewayThatHasTheVersionBefore) {
  const TemporaryFolder folder;
  const std::string socket = folder.path + "/gateway.sock";
  boost::asio::io_context io;
  std::mutex mutex;
  std::vector<std::string> calls{"", ""};  // the mutex guards them
  std::atomic<bool> restarted = false;
  auto server = std::make_unique<wire::HttpServer>(
      io, std::move(*wire::listen_on({.path = socket})),
      [&](wire::HttpRequest request) -> wire::asio::awaitable<wire::HttpResponse> {
        const json body = json::parse(request.body());
        const bool part = request.method() == verb::patch;
        const std::lock_guard lock(mutex);
        calls.push_back(part ? "part since " + body["since"].dump() : "whole");
        if (part && restarted.exchange(false)) co_return wire::error_response(409, "another table");
        co_return wire::json_response({{"version", body["version"]}, {"busy", {"i"}}});
      });
  std::thread thread([&] { io.run(); });
  LocalCluster cluster(folder.path + "/node.sock", socket, Seconds(3600));
  RoutingTable table{.version = 1};
  const auto push = [&] {
    cluster.observe();  // orders may wait again
    ++table.version;
    const auto busy = cluster.set_routes(LocalCluster::kGateway, table);
    return busy.ok() && *busy == std::set<InstanceId>{"i"};
  };
  const auto last_two = [&] {
    const std::lock_guard lock(mutex);
    return std::pair(calls.rbegin()[1], calls.back());
  };
  // On a busy machine an order may be given up; then the table is sent whole.
  EXPECT_TRUE(eventually("a part behind a whole table", [&] {
    return push() && push() &&
           last_two().second == "part since " + std::to_string(table.version - 1);
  }));
  EXPECT_TRUE(eventually("a whole table behind a part that was refused", [&] {
    restarted = false;
    if (!push()) return false;
    restarted = true;
    return push() && last_two().second == "whole" && last_two().first.starts_with("part");
  }));
  io.stop();
  thread.join();
}

// ---- answers ---------------------------------------------------------------------------------

TEST(KeptAnswers, AListingIsMadeOnceUntilTheStateChanges) {
  KeptAnswers kept;
  int made = 0;
  const auto make = [&] { return wire::text_response(std::to_string(++made)); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(kept.get("/metrics", make).body(), "1");
  EXPECT_EQ(kept.get("/v1/functions", make).body(), "2");
  kept.forget();
  EXPECT_EQ(kept.get("/metrics", make).body(), "3");
  for (size_t i = 0; i < 2 * KeptAnswers::kMost; ++i) kept.get(std::to_string(i), make);
  const int before = made;
  kept.get("0", make);
  EXPECT_EQ(made, before);
  kept.get(std::to_string(2 * KeptAnswers::kMost - 1), make);  // one too many was not kept
  EXPECT_EQ(made, before + 1);
}

// ---- the process -----------------------------------------------------------------------------

class HungControl : public testing::Test {
 protected:
  HungControl() {
    write_model(peers_.folder.path + "/m");
    running_ = std::thread([this] {
      const std::string& data = peers_.folder.path;
      const SteadyClock clock;
      const auto local = std::move(*LocalPorts::open(data, "sluice-trainer", clock));
      EXPECT_TRUE(
          run_control(local->ports(), {},
                      {.local = std::move(*wire::listen_on({.path = data + "/run/api.sock"}))})
              .ok());
    });
    EXPECT_TRUE(eventually("the API", [&] { return get("/v1/status").ok(); }));
  }
  ~HungControl() override { end(); }
  void end() {
    if (!running_.joinable()) return;
    peers_.node.reset();  // this ends running calls
    peers_.gateway.reset();
    kill(getpid(), SIGTERM);
    running_.join();
  }

  // A peer's time-out is longer: an answer that waits for it comes too late.
  Result<json> ask(verb method, const std::string& target, const std::string& body = "") {
    wire::HttpClient client({.path = peers_.socket("api")}, Seconds(4));
    SLUICE_ASSIGN(response, client.call(method, target, body));
    SLUICE_ASSIGN(answer, wire::parse_json(response.body()));
    if (response.result_int() != 200)
      return Error{wire::error_kind(static_cast<int>(response.result_int())), answer["error"]};
    return answer;
  }
  Result<json> get(const std::string& target) { return ask(verb::get, target); }
  static std::string file_of(const std::string& name, const std::string& model) {
    return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: " + name +
           "\nspec: {model: {path: " + model + "}, slo: {latency: 100ms}}\n";
  }
  Result<json> apply(const std::string& model) {
    return ask(verb::post, "/v1/functions", file_of("{name: f}", model));
  }

  HungPeers peers_;
  std::thread running_;
};

TEST_F(HungControl, ListingsDoNotWaitForPeers) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(get("/v1/functions").ok()) << i;
  for (const char* kind : {"instances", "devices"})
    EXPECT_TRUE(get("/v1/" + std::string(kind)).ok());
  const auto status = get("/v1/status");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ((*status)["node"], false);
  EXPECT_EQ((*status)["node_seen"], 0);
  EXPECT_EQ((*status)["gateway"], false);
}

TEST_F(HungControl, ChangesDoNotWaitForPeers) {
  const auto applied = apply(peers_.folder.path + "/m.pt");
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_EQ((*applied)["results"][0]["action"], "created");
  EXPECT_EQ((*get("/v1/functions"))[0]["name"], "f");
  EXPECT_TRUE(ask(verb::delete_, "/v1/functions/default/f").ok());
  EXPECT_EQ((*get("/v1/functions")).size(), 0u);
}

TEST_F(HungControl, ARefusedApplyLeavesNoCopy) {
  const std::string model = peers_.folder.path + "/m.pt";
  const auto refused =
      ask(verb::post, "/v1/functions",
          file_of("{name: a.b}", model) + "---\n" + file_of("{name: b, namespace: a}", model));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("clients would call it a.b"), std::string::npos)
      << refused.error().message;
  EXPECT_TRUE(eventually("the copy to be removed", [&] {
    return std::filesystem::is_empty(peers_.folder.path + "/models");
  }));
}

// A model of a terabyte takes an hour to read: an archive with a hole before its last record.
TEST_F(HungControl, AnEndDoesNotWaitForAModelThatIsRead) {
  constexpr size_t kEndRecord = 22;
  const std::string path = peers_.folder.path + "/large.pt";
  const std::string archive = archive_of("weights");
  std::filesystem::copy(peers_.folder.path + "/m.json", peers_.folder.path + "/large.json");
  {
    std::ofstream large(path, std::ios::binary);
    large << archive.substr(0, archive.size() - kEndRecord);
    large.seekp(int64_t{1} << 40);
    large << archive.substr(archive.size() - kEndRecord) << std::flush;
    ASSERT_TRUE(large.good()) << "no file system for a file of a terabyte";
  }
  std::thread client(
      [&] { (void)ask(verb::post, "/v1/functions?dry_run=1", file_of("{name: f}", path)); });
  const auto is_read = [&] {
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;
      if (std::filesystem::read_symlink(fd, closed) == path) return true;
    }
    return false;
  };
  EXPECT_TRUE(eventually("the model to be read", is_read));
  end();
  client.join();
}

TEST_F(HungControl, AKindOfServerThatIsNotHereIsRefused) {
  for (const char* target : {"/v1/functions", "/v1/functions?dry_run=1"}) {
    const auto refused =
        ask(verb::post, target,
            file_of("{name: f}", peers_.folder.path + "/m.pt, modelFormat: {name: onnx}"));
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(
        refused.error().message.find("model.modelFormat.name: \"onnx\" is not served: torchscript"),
        std::string::npos)
        << refused.error().message;
  }
  EXPECT_EQ(get("/v1/functions")->size(), 0u);
}

TEST_F(HungControl, AModelThatIsNoFileIsRefused) {
  const std::string fifo = peers_.folder.path + "/fifo.pt";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto refused = apply(fifo);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("model.path: " + fifo + ": is no regular file"),
            std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace sluice::control
