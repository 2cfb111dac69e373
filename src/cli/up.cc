// `sluice up`: starts the platform and watches over it. `sluice down`: ends it.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include "base/log.h"
#include "cli/session.h"
#include "cli/supervisor.h"
#include "policy/bundle.h"

namespace sluice::cli {
namespace {

using wire::http::verb;

struct UpFlags {
  std::string listen = "127.0.0.1:8000", api = "127.0.0.1:7070", policy = "has-gpu", runtime,
              arbiter;
  std::string tls_cert, tls_key;
  int devices = 0, threads = 0;
  double price = 0, alpha = 0, slo_fraction = 0;
};

// Made once, readable by its owner alone.
Result<void> make_token(const std::string& path) {
  if (std::filesystem::exists(path)) return {};
  std::ifstream random("/dev/urandom", std::ios::binary);
  std::string text;
  for (int i = 0; i < 24; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof(hex), "%02x", random.get() & 0xff);
    text += hex;
  }
  std::ofstream out(path);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  out << text << "\n";
  out.flush();
  if (!out) return Error{ErrorKind::kInternal, path + ": cannot be written (disk full?)"};
  return {};
}

// The platform ends: instances too. The loop that would start them anew has stopped by now.
void stop_instances(const std::string& node_socket) {
  wire::HttpClient node({.path = node_socket}, Seconds(5));
  for (int waited = 0; waited < 300; ++waited) {
    const auto state = node.json(verb::get, "/v1/state");
    if (!state.ok()) return;
    int living = 0;
    for (const auto& i : state->value("instances", nlohmann::json::array())) {
      if (i.value("state", "gone") == "gone") continue;
      ++living;
      if (waited == 0)
        (void)node.json(verb::delete_, "/v1/instances/" + i.value("id", ""),
                        {{"drain_ms", 10'000}});
    }
    if (living == 0) return;
    std::this_thread::sleep_for(Millis(100));
  }
}

Result<void> up(const Session& session, const UpFlags& f) {
  log::start("up");
  if (policy::find_bundle(f.policy) == nullptr)
    return Error{ErrorKind::kInvalid,
                 "--policy: '" + f.policy + "' is not known (sluice up --help lists them)"};
  const std::string data = std::filesystem::absolute(session.data);
  SLUICE_ASSIGN(supervisor, Supervisor::open(data));
  SLUICE_TRY(make_token(data + "/token"));
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<std::string> node{self, "node", "--data", data, "--listen-fd", "{fd}"};
  if (f.devices > 0) node.insert(node.end(), {"--devices", std::to_string(f.devices)});
  if (f.price > 0) node.insert(node.end(), {"--price-per-core-hour", std::to_string(f.price)});
  if (!f.runtime.empty()) node.insert(node.end(), {"--runtime", f.runtime});
  if (!f.arbiter.empty()) node.insert(node.end(), {"--arbiter", f.arbiter});
  std::vector<std::string> control{self,     "control", "--data", data,          "--policy",
                                   f.policy, "--home",  home(),   "--listen-fd", "{fd}"};
  if (f.alpha > 0) control.insert(control.end(), {"--alpha", std::to_string(f.alpha)});
  if (f.slo_fraction > 0)
    control.insert(control.end(), {"--slo-fraction", std::to_string(f.slo_fraction)});
  std::vector<std::string> gateway{
      self,          "gateway", "--data",    data,
      "--listen-fd", "{fd}",    "--threads", std::to_string(f.threads)};
  if (!f.tls_cert.empty())
    gateway.insert(gateway.end(), {"--tls-cert", f.tls_cert, "--tls-key", f.tls_key});
  const std::string node_socket = data + "/run/node.sock";
  SLUICE_TRY(supervisor.start({
      {.name = "node",
       .command = node,
       .before_stop = [=] { stop_instances(node_socket); },
       .listen = node_socket},
      {.name = "control", .command = control, .before_stop = {}, .listen = f.api},
      {.name = "gateway", .command = gateway, .before_stop = {}, .listen = f.listen},
  }));
  std::ofstream(data + "/run/gateway.address") << f.listen << "\n";
  std::ofstream(data + "/run/up.pid") << getpid() << "\n";
  log::info("functions on http://{}, API on http://{} (token in {}/token), data in {}", f.listen,
            f.api, data, data);
  supervisor.run(Seconds(45));
  std::filesystem::remove(data + "/run/up.pid");
  return {};
}

Result<void> down(const Session& session) {
  SLUICE_ASSIGN(text, read_file(session.data + "/run/up.pid"));
  const int pid = std::atoi(text.c_str());
  if (pid <= 1 || ::kill(pid, SIGTERM) != 0)
    return Error{ErrorKind::kNotFound,
                 "no supervisor runs on " + session.data +
                     ": start one (sluice up adopts what lives), then end it"};
  while (::kill(pid, 0) == 0) std::this_thread::sleep_for(Millis(50));
  return {};
}

}  // namespace

void add_up(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<UpFlags>();
  CLI::App* up_command =
      app.add_subcommand("up", "start the platform on this machine and watch over it");
  up_command->add_option("--listen", f->listen, "where functions are served")
      ->capture_default_str();
  up_command
      ->add_option("--api", f->api, "where the API is served over TCP, for bearers of the token")
      ->capture_default_str();
  std::string policies;
  for (const policy::Bundle& b : policy::bundles())
    policies += "\n" + std::string(b.name) + ": " + std::string(b.summary);
  up_command->add_option("--policy", f->policy, "of functions that name none:" + policies)
      ->capture_default_str();
  up_command->add_option("--devices", f->devices,
                         "CPU devices to make of this machine; 0: at least four");
  up_command->add_option("--price-per-core-hour", f->price, "what costs are counted with");
  up_command->add_option("--threads", f->threads, "loops of the gateway; 0: one per core less one");
  up_command->add_option("--arbiter", f->arbiter, "window, multi_token or planned");
  up_command->add_option("--alpha", f->alpha, "has-gpu: scale up above this part of the capacity");
  up_command->add_option("--slo-fraction", f->slo_fraction,
                         "has-gpu: the longest a batch may take, of the SLO");
  up_command->add_option("--runtime", f->runtime, "path of sluice-runtime");
  up_command->add_option("--tls-cert", f->tls_cert, "PEM file: serve functions over TLS");
  up_command->add_option("--tls-key", f->tls_key, "PEM file");
  up_command->callback([f, &session, &outcome] { outcome = up(session, *f); });
  app.add_subcommand("down", "end the platform: drain, stop all instances and processes")
      ->callback([&] { outcome = down(session); });
}

}  // namespace sluice::cli
