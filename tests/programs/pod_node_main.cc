// The node daemon whose instances are Pods, for tests. What an API server would say of the Pods is
// in DATA/pods.json, which it reads every few milliseconds:
//   {"current": true, "pods": {"ID": {"uid", "name", "phase", "why", "ip", "containers",
//                                     "leaves", "ended"}}}
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/node.h"
#include "wire/http/await.h"

namespace {

namespace asio = boost::asio;
using nlohmann::json;
using sluice::node::PodsInMemory;

void read(const std::string& path, PodsInMemory& pods) {
  const json now = json::parse(std::ifstream(path), nullptr, false);
  if (now.is_discarded()) return;
  pods.set_current(now.value("current", true));
  if (!pods.current()) return;  // the API server says nothing
  for (const auto& [id, one] : now["pods"].items())
    pods.set(id, {.uid = one.value("uid", ""),
                  .name = one.value("name", ""),
                  .phase = one.value("phase", ""),
                  .why = one.value("why", ""),
                  .ip = one.value("ip", ""),
                  .containers = one.value("containers", std::vector<std::string>()),
                  .prepares = one.value("prepares", false),
                  .leaves = one.value("leaves", false),
                  .ended = one.value("ended", false)});
}

asio::awaitable<void> follow(asio::io_context& io, std::string path, PodsInMemory& pods) {
  for (asio::steady_timer timer(io);;) {
    read(path, pods);
    timer.expires_after(sluice::Millis(5));
    co_await timer.async_wait(sluice::wire::kAwait);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("node daemon with Pods");
  CLI::App* node = app.add_subcommand("node")->required();
  sluice::cli::NodeFlags flags;
  std::string runtime;
  int patience_ms = 0;
  sluice::cli::add_node_options(*node, flags);
  node->add_option("--listen-fd", flags.listen_fd);
  node->add_option("--runtime", runtime, "not read");
  node->add_option("--ready-patience-ms", patience_ms);
  CLI11_PARSE(app, argc, argv);
  if (patience_ms > 0) flags.settings.ready_patience = sluice::Millis(patience_ms);
  flags.settings.paths.permits = flags.settings.paths.data + "/permits";
  asio::io_context io{1};
  PodsInMemory pods;
  asio::co_spawn(io, follow(io, flags.settings.paths.data + "/pods.json", pods), asio::detached);
  const sluice::Result<void> outcome = sluice::cli::run_node(io, std::move(flags), &pods);
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "sluice: %s\n", outcome.error().message.c_str());
  return 1;
}
