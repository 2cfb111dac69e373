// The program of bench/k8s-scale: fills a real API server with Nodes and functions, stands in for
// their agents and kubelets (k8s_stand_ins.h), and measures how soon the controller follows a
// change. One JSON object a line says what it saw.
//
// bench_k8s-scale KUBECONFIG FOLDER NODES FUNCTIONS REPLICAS REST_SECONDS ROUNDS
//
// FOLDER has the agents' certificate in tls/ and the functions' model, mlp.pt; their socket will be
// there.
//
// One thread, besides that of the TLS front.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <optional>

#include "base/log.h"
#include "bench/k8s_stand_ins.h"
#include "control/kube/peer_secrets.h"
#include "kube/informer.h"
#include "wire/http/await.h"
#include "wire/http/tls_front.h"

namespace sluice::bench {
namespace {

using nlohmann::json;
using wire::http::verb;
using Steady = std::chrono::steady_clock;

constexpr int kAtOnce = 16;              // calls that fill the API server
constexpr Nanos kSpacing = Millis(200);  // between two changes
constexpr Nanos kPatience = Seconds(60);
constexpr Nanos kFillPatience = Seconds(900);

struct Options {
  std::string kubeconfig, folder;
  int nodes = 0, functions = 0, replicas = 0, rest_seconds = 0, rounds = 0;
};

std::string function_name(int index) {
  return "f" + std::to_string(10'000 + index);
}

double milliseconds(Steady::time_point from, Steady::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

void say(const json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

json running_pod(const std::string& name, const std::string& component, const std::string& node) {
  json pod{{"metadata",
            {{"name", name},
             {"namespace", "sluice-system"},
             {"labels",
              {{"app.kubernetes.io/part-of", "sluice"}, {"app.kubernetes.io/name", component}}}}},
           {"spec", {{"containers", json::array({{{"name", "stands-in"}, {"image", "none"}}})}}}};
  pod["spec"]["nodeName"] = node;
  return pod;
}

json function_of(const std::string& name, const std::string& model, int replicas) {
  const json slice{{"sm", "100%"}, {"quota", {{"request", "5%"}}}, {"memory", "1Mi"}};
  return {{"apiVersion", control::kGroup},
          {"kind", "InferenceFunction"},
          {"metadata", {{"name", name}, {"namespace", "default"}}},
          {"spec",
           {{"model", {{"storageUri", "file://" + model}}},
            {"slo", {{"latency", "1s"}}},
            {"memory", "1Mi"},
            {"policy", "fixed"},
            {"slice", slice},
            {"minReplicas", replicas}}}};
}

// A change of a function's least number of instances, until it has been followed.
struct Change {
  Steady::time_point begun;
  bool grows = false;
  int replicas = 0;
  std::optional<int64_t> generation;  // as the API server counts it
  std::optional<Steady::time_point> pod_at, status_at, ready_at;
};

class Bench {
 public:
  Bench(kube::Client& client, Options options, const Agents& agents, Kubelets& kubelets)
      : client_(client), o_(std::move(options)), agents_(agents), kubelets_(kubelets) {
    kubelets_.on_pod = [this](const std::string& function, bool made) {
      const auto change = changes_.find(function);
      if (change == changes_.end() || change->second.grows != made) return;
      if (!change->second.pod_at) change->second.pod_at = Steady::now();
    };
  }

  wire::asio::awaitable<void> run() {
    const auto begun = Steady::now();
    co_await fill();
    follow_functions();
    const bool full = co_await holds([this] { return all_ready(); }, kFillPatience);
    say({{"filled", full},
         {"seconds", milliseconds(begun, Steady::now()) / 1000},
         {"pods", kubelets_.running()},
         {"ready", ready_}});
    co_await sleep(Seconds(10));  // what follows the last start
    co_await window("rest", Seconds(o_.rest_seconds));
    for (int round = 0; full && round < o_.rounds; ++round) co_await change_some(round);
    client_.io().stop();
  }

 private:
  struct View {
    int64_t observed = 0;
    int ready = 0;
  };

  wire::asio::awaitable<void> sleep(Nanos span) {
    wire::asio::steady_timer timer(client_.io(), span);
    (void)co_await timer.async_wait(wire::kAwait);
  }
  wire::asio::awaitable<bool> holds(std::function<bool()> condition, Nanos patience) {
    const auto end = Steady::now() + patience;
    while (!condition() && Steady::now() < end) co_await sleep(Millis(20));
    co_return condition();
  }
  bool all_ready() const {
    return ready_ == o_.functions &&
           kubelets_.running() == static_cast<size_t>(o_.functions) * o_.replicas;
  }

  wire::asio::awaitable<void> fill();
  wire::asio::awaitable<void> send_all(std::vector<kube::Call> calls);
  wire::asio::awaitable<void> send_some(std::vector<kube::Call>& calls, size_t& next, int& open);
  void follow_functions();
  void see(const json& object);
  void check(Change& change, const View& view);
  wire::asio::awaitable<void> window(std::string name, Nanos span);
  wire::asio::awaitable<void> change_some(int round);
  wire::asio::awaitable<void> change(std::string function, bool grows);
  void report(int round, UnixMillis from, UnixMillis sent, UnixMillis to);

  kube::Client& client_;
  const Options o_;
  const Agents& agents_;
  Kubelets& kubelets_;
  std::map<std::string, View> functions_;
  int ready_ = 0;  // functions with all their instances
  std::map<std::string, Change> changes_;
};

// ---- filling -----------------------------------------------------------------------------------

wire::asio::awaitable<void> Bench::fill() {
  std::vector<kube::Call> nodes, pods, states, functions;
  for (int i = 0; i < o_.nodes; ++i) {
    const std::string node = node_name(i), pod = "sluice-agent-" + std::to_string(1000 + i);
    nodes.emplace_back(
        verb::post, "/api/v1/nodes",
        json{{"metadata",
              {{"name", node}, {"annotations", {{control::kDevicesAnnotation, "cpu"}}}}}});
    pods.emplace_back(verb::post, "/api/v1/namespaces/sluice-system/pods",
                      running_pod(pod, "sluice-agent", node));
    states.emplace_back(verb::patch, "/api/v1/namespaces/sluice-system/pods/" + pod + "/status",
                        json{{"status", {{"phase", "Running"}, {"podIP", agent_address(i)}}}},
                        kube::kMergePatch);
  }
  pods.emplace_back(verb::post, "/api/v1/namespaces/sluice-system/pods",
                    running_pod("sluice-gateway-0", "sluice-gateway", node_name(0)));
  states.emplace_back(verb::patch, "/api/v1/namespaces/sluice-system/pods/sluice-gateway-0/status",
                      json{{"status", {{"phase", "Running"}, {"podIP", "127.2.0.1"}}}},
                      kube::kMergePatch);
  for (int i = 0; i < o_.functions; ++i)
    functions.emplace_back(verb::post, control::path_in(control::kFunctionsPath, "default"),
                           function_of(function_name(i), o_.folder + "/mlp.pt", o_.replicas));
  co_await send_all(std::move(nodes));
  co_await send_all(std::move(pods));
  co_await send_all(std::move(states));
  co_await sleep(Seconds(5));  // connections to the agents
  co_await send_all(std::move(functions));
}

wire::asio::awaitable<void> Bench::send_all(std::vector<kube::Call> calls) {
  size_t next = 0;
  int open = kAtOnce;
  for (int i = 0; i < kAtOnce; ++i)
    wire::asio::co_spawn(client_.io(), send_some(calls, next, open), wire::asio::detached);
  while (open > 0) co_await sleep(Millis(5));  // NOLINT(bugprone-infinite-loop): they end it
}

wire::asio::awaitable<void> Bench::send_some(std::vector<kube::Call>& calls, size_t& next,
                                             int& open) {
  while (next < calls.size()) {
    kube::Call call = calls[next++];
    const auto sent = co_await client_.call(std::move(call));
    if (!sent.ok()) log::error("{}", sent.error().message);
  }
  --open;
}

// ---- what the controller writes ----------------------------------------------------------------

void Bench::follow_functions() {
  kube::WatchSink sink{.set = [this](const json& o) { see(o); },
                       .remove = [](const kube::Key&) {},
                       .keys = [] { return std::set<kube::Key>(); },
                       .synced = [] {},
                       .current = [](bool) {}};
  wire::asio::co_spawn(client_.io(),
                       kube::follow(client_, control::kFunctionsPath, "", std::move(sink)),
                       wire::asio::detached);
}

void Bench::see(const json& object) {
  const auto f = control::FunctionObject::parse(object);
  if (!f.ok()) return;
  View& view = functions_[f->name.name];
  ready_ -= view.ready == o_.replicas ? 1 : 0;
  view = {f->observed_generation(), f->status.value("ready", 0)};
  ready_ += view.ready == o_.replicas ? 1 : 0;
  const auto change = changes_.find(f->name.name);
  if (change != changes_.end()) check(change->second, view);
}

void Bench::check(Change& change, const View& view) {
  if (!change.generation || view.observed < *change.generation) return;
  if (!change.status_at) change.status_at = Steady::now();
  if (!change.ready_at && view.ready == change.replicas) change.ready_at = Steady::now();
}

// ---- changes -----------------------------------------------------------------------------------

wire::asio::awaitable<void> Bench::window(std::string name, Nanos span) {
  const UnixMillis from = unix_now();
  const uint64_t before = agents_.answered();
  co_await sleep(span);
  say({{"window", name},
       {"from", from},
       {"to", unix_now()},
       {"agent_calls", agents_.answered() - before}});
}

// One function in twenty gets an instance more, and in the next round one less.
wire::asio::awaitable<void> Bench::change_some(int round) {
  changes_.clear();
  const UnixMillis from = unix_now();
  const int step = 20, first = round / 2 % step;
  for (int i = first; i < o_.functions; i += step) {
    wire::asio::co_spawn(client_.io(), change(function_name(i), round % 2 == 0),
                         wire::asio::detached);
    co_await sleep(kSpacing);
  }
  const UnixMillis sent = unix_now();
  (void)co_await holds(
      [this] {
        return std::ranges::all_of(changes_, [](const auto& c) {
          return c.second.pod_at && c.second.status_at && c.second.ready_at;
        });
      },
      kPatience);
  report(round, from, sent, unix_now());
  co_await sleep(Seconds(5));
}

wire::asio::awaitable<void> Bench::change(std::string function, bool grows) {
  const int replicas = o_.replicas + (grows ? 1 : 0);
  changes_[function] = {.begun = Steady::now(), .grows = grows, .replicas = replicas};
  kube::Call call(verb::patch, control::path_in(control::kFunctionsPath, "default", function),
                  json{{"spec", {{"minReplicas", replicas}}}}, kube::kMergePatch);
  const auto answer = co_await client_.call(std::move(call));
  if (!answer.ok()) {
    log::error("{}", answer.error().message);
    co_return;
  }
  Change& c = changes_[function];
  c.generation = answer->value("/metadata/generation"_json_pointer, int64_t{0});
  check(c, functions_[function]);
}

// From the first change: to the last one `sent`, and until all are carried out.
void Bench::report(int round, UnixMillis from, UnixMillis sent, UnixMillis to) {
  json pods = json::array(), statuses = json::array(), all = json::array(), ready = json::array();
  int missing = 0;
  for (const auto& [name, c] : changes_) {
    if (!c.pod_at || !c.status_at) {
      ++missing;
      continue;
    }
    pods.push_back(milliseconds(c.begun, *c.pod_at));
    statuses.push_back(milliseconds(c.begun, *c.status_at));
    all.push_back(milliseconds(c.begun, std::max(*c.pod_at, *c.status_at)));
    if (c.ready_at) ready.push_back(milliseconds(c.begun, *c.ready_at));
  }
  say({{"round", round},
       {"from", from},
       {"sent", sent},
       {"to", to},
       {"pods", pods},
       {"statuses", statuses},
       {"reconcile", all},
       {"ready", ready},
       {"missing", missing}});
}

int run(const Options& o) {
  wire::asio::io_context io{1};
  auto config = kube::config_from_file(o.kubeconfig);
  if (!config.ok()) return log::error("{}", config.error().message), 1;
  auto client = kube::Client::make(io, *config, {.calls_a_second = 5000, .burst = 5000});
  const std::string socket = o.folder + "/agents.sock";
  auto at = wire::parse_endpoint("0.0.0.0:7443");
  auto outside = wire::listen_on(*at), inside = wire::listen_on({.path = socket});
  if (!client.ok() || !outside.ok() || !inside.ok()) return log::error("no socket"), 1;
  const int most = 2 * o.nodes + 16;
  Agents agents(o.nodes);
  const wire::HttpServer server(
      io, std::move(*inside),
      [&](wire::HttpRequest request) { return agents.answer(std::move(request)); },
      wire::HttpLimits{.connections = static_cast<size_t>(most)});
  const wire::TlsFront front(std::move(*outside), {.tls = o.folder + "/tls",
                                                   .client = control::kControllerName,
                                                   .to = socket,
                                                   .connections = most});
  Kubelets kubelets(**client, agents);
  Bench bench(**client, o, agents, kubelets);
  kubelets.run();
  wire::asio::co_spawn(io, bench.run(), wire::asio::detached);
  io.run();
  std::_Exit(0);  // coroutines refer to what ends here
}

}  // namespace
}  // namespace sluice::bench

int main(int count, char** words) {
  if (count != 8) {
    std::fprintf(stderr, "see the first lines of bench/k8s-scale.cc\n");
    return 2;
  }
  sluice::log::start("stand-ins");
  return sluice::bench::run({.kubeconfig = words[1],
                             .folder = words[2],
                             .nodes = std::atoi(words[3]),
                             .functions = std::atoi(words[4]),
                             .replicas = std::atoi(words[5]),
                             .rest_seconds = std::atoi(words[6]),
                             .rounds = std::atoi(words[7])});
}
