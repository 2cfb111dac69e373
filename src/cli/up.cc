// `sluice up`: starts the platform and watches over it. `sluice down`: ends it.
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "arbiters/arbiter.h"
#include "base/log.h"
#include "base/replace_file.h"
#include "base/secret.h"
#include "base/system_error.h"
#include "base/words.h"
#include "cli/devices_option.h"
#include "cli/inherited.h"
#include "cli/limits.h"
#include "cli/platform_processes.h"
#include "cli/price_option.h"
#include "cli/programs.h"
#include "cli/session.h"
#include "cli/supervisor.h"
#include "control/local/checkpoint_copies.h"
#include "control/local/servers.h"
#include "control/spec/function_file.h"
#include "enforce/cgroup.h"
#include "policy/bundle.h"
#include "policy/loans.h"

namespace sluice::cli {
namespace {

using wire::http::verb;

constexpr Nanos kPatience = Seconds(45);  // for a process to finish what it has

struct UpFlags {
  std::string listen = "127.0.0.1:8000", api = "127.0.0.1:7070", policy = "has-gpu", plan, runtime,
              arbiter, nvml, mps, gpu_store, settings_file, servers, loans = "fapes", checkpoints;
  double lend_after = 30;  // seconds
  int spare_servers = 0;
  policy::SettingTexts settings;  // of the policy, from the file
  std::string tls_cert, tls_key, gateway_token_file;
  size_t max_body = 64 << 20;
  bool refine = true;
  bool strict_readiness = false;
  std::string devices;
  int threads = 0;
  std::optional<int> first_uid;            // without: as the node daemon has it
  std::optional<double> price, gpu_price;  // without: as the node daemon has it
  std::vector<std::string> type_prices;
};

// Made once, readable only by its owner.
Result<void> make_token(const std::string& path) {
  if (std::filesystem::exists(path)) return {};
  return replace_file(path, make_secret() + "\n");
}

// Ends instances with the platform. The loop that would start them anew has stopped by now.
void stop_instances(const std::string& node_socket) {
  wire::HttpClient node({.path = node_socket}, Seconds(10));
  const SteadyClock clock;
  const Time give_up = clock.now() + Seconds(30);
  std::set<std::string> asked;
  for (std::string after = "0"; clock.now() < give_up;) {
    const auto state = node.json(verb::get, "/v1/state?wait_ms=1000&after=" + after);
    if (!state.ok()) return;
    int living = 0;
    for (const auto& i : state->value("instances", nlohmann::json::array())) {
      if (i.value("state", "gone") == "gone") continue;
      ++living;
      if (!asked.insert(i.value("id", "")).second) continue;
      const auto told =
          node.json(verb::delete_, "/v1/instances/" + i.value("id", ""), {{"drain_ms", 10'000}});
      if (!told.ok() && told.error().kind == ErrorKind::kTimeout) return;
    }
    if (living == 0) return;
    after = state->value("version", nlohmann::json(0)).dump();
  }
}

// Returns the platform's processes in their starting order.
std::vector<ChildSpec> processes(const std::string& data, const UpFlags& f) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string node_socket = data + "/run/node.sock";
  const std::string first = std::to_string(kListenFd), second = std::to_string(kListenFd + 1);
  std::vector<std::string> node{self, "node", "--data", data, "--listen-fd", first};
  if (!f.devices.empty()) node.insert(node.end(), {"--devices", f.devices});
  if (f.price) node.insert(node.end(), {"--price-per-core-hour", std::to_string(*f.price)});
  if (f.gpu_price) node.insert(node.end(), {"--price-per-gpu-hour", std::to_string(*f.gpu_price)});
  if (!f.type_prices.empty()) {
    std::string all;
    for (const std::string& price : f.type_prices) all += (all.empty() ? "" : ",") + price;
    node.insert(node.end(), {"--price", all});
  }
  if (!f.nvml.empty()) node.insert(node.end(), {"--nvml", f.nvml});
  if (!f.mps.empty()) node.insert(node.end(), {"--mps", f.mps});
  if (!f.gpu_store.empty()) node.insert(node.end(), {"--gpu-store", f.gpu_store});
  if (f.first_uid) node.insert(node.end(), {"--first-uid", std::to_string(*f.first_uid)});
  if (!f.runtime.empty()) node.insert(node.end(), {"--runtime", f.runtime});
  const policy::Bundle* bundle = policy::find_bundle(f.policy);
  if (!f.arbiter.empty())
    node.insert(node.end(), {"--arbiter", f.arbiter});
  else if (bundle != nullptr)
    node.insert(node.end(), {"--default-arbiter", std::string(bundle->arbiter)});
  std::vector<std::string> control{self,     "control", "--data",      data,  "--policy", f.policy,
                                   "--home", home(),    "--listen-fd", first, "--tcp-fd", second};
  for (const auto& [name, text] : f.settings)
    control.insert(control.end(), {"--setting", name + "=" + text});
  if (!f.plan.empty()) control.insert(control.end(), {"--plan", f.plan});
  if (!f.servers.empty())
    control.insert(control.end(), {"--servers", f.servers, "--loans", f.loans, "--lend-after",
                                   std::to_string(f.lend_after), "--spare-servers",
                                   std::to_string(f.spare_servers)});
  if (!f.checkpoints.empty()) control.insert(control.end(), {"--checkpoints", f.checkpoints});
  if (!f.refine) control.insert(control.end(), {"--refine", "false"});
  std::vector<std::string> gateway{self,          "gateway",
                                   "--data",      data,
                                   "--listen-fd", first,
                                   "--threads",   std::to_string(f.threads),
                                   "--max-body",  std::to_string(f.max_body)};
  if (f.strict_readiness) gateway.push_back("--strict-readiness");
  if (!f.tls_cert.empty())
    gateway.insert(gateway.end(), {"--tls-cert", f.tls_cert, "--tls-key", f.tls_key});
  if (!f.gateway_token_file.empty())
    gateway.insert(gateway.end(),
                   {"--token-file", std::filesystem::absolute(f.gateway_token_file)});
  return {{.name = "node",
           .command = node,
           .listen = {node_socket},
           .before_stop = [=] { stop_instances(node_socket); }},
          {.name = "control", .command = control, .listen = {data + "/run/api.sock", f.api}},
          {.name = "gateway", .command = gateway, .listen = {f.listen}, .serves_on = true}};
}

// Warns the user once, at the terminal: the node daemon will find the same.
void warn_without_backstop() {
  const auto cgroups = node::Cgroups::detect("sluice-up-" + std::to_string(getpid()));
  if (!cgroups.writable()) return log::warn("{}", cgroups.describe());
  if (auto tried = cgroups.open(""); tried.ok()) (void)tried->remove();
}

// Publishes for users of this machine where the process listens, with the port that the kernel
// chose.
Result<std::string> publish(const Supervisor& supervisor, const std::string& name,
                            const std::string& path) {
  SLUICE_ASSIGN(listening, supervisor.addresses(name));
  const std::string at = wire::to_string(listening.back());
  SLUICE_TRY(replace_file(path, at + "\n", 0644));
  return at;
}

Result<void> up(const Session& session, UpFlags& f) {
  log::start("up");
  const policy::Bundle* bundle = policy::find_bundle(f.policy);
  if (bundle == nullptr)
    return Error{ErrorKind::kInvalid,
                 "--policy: '" + f.policy + "' is not known (`sluice policies` lists them)"};
  if (!f.settings_file.empty()) {
    SLUICE_ASSIGN(text, read_file(f.settings_file));
    SLUICE_ASSIGN(settings, control::parse_settings(text, f.settings_file, *bundle));
    f.settings = std::move(settings);
  }
  const std::string data = std::filesystem::absolute(session.data);
  SLUICE_ASSIGN(supervisor, Supervisor::open(data));
  SLUICE_TRY(make_token(data + "/token"));
  SLUICE_TRY(provide_programs(data));
  SLUICE_TRY(supervisor.adopt(processes(data, f)));
  supervisor.warn_of_differences();
  SLUICE_TRY(supervisor.listen());
  SLUICE_ASSIGN(functions, publish(supervisor, "gateway", data + "/run/gateway.address"));
  SLUICE_ASSIGN(api, publish(supervisor, "control", data + "/run/api.address"));
  SLUICE_TRY(supervisor.start());
  log::info("functions on http://{}, API on http://{} (token in {}/token), data in {}", functions,
            api, data, data);
  warn_without_backstop();
  return supervisor.run(kPatience);
}

// Asks the supervisor to end, and waits until it has.
Result<void> end_supervisor(const LockHolder& supervisor, bool keep) {
  if (syscall(SYS_pidfd_send_signal, supervisor.pidfd.get(), keep ? SIGUSR1 : SIGTERM, nullptr,
              0) != 0 &&
      errno != ESRCH)
    return system_error("supervisor " + std::to_string(supervisor.pid));
  pollfd p{supervisor.pidfd.get(), POLLIN, 0};
  while (poll(&p, 1, -1) < 0 && errno == EINTR) {
  }
  return {};
}

// Asks the supervisor; then checks by itself and ends what is left, because the supervisor may have
// died on the way, or long before.
Result<void> down(const Session& session, bool keep) {
  log::start("down");
  const std::string data = std::filesystem::absolute(session.data);
  SLUICE_ASSIGN(holder, Supervisor::holder(data));
  if (holder) SLUICE_TRY(end_supervisor(*holder, keep));
  const Error nobody{ErrorKind::kUnavailable, "no platform runs on " + data};
  if (!std::filesystem::exists(data + "/up.lock")) return nobody;
  SLUICE_ASSIGN(supervisor, Supervisor::open(data));
  SLUICE_TRY(supervisor.adopt(processes(data, {})));
  const bool runs = supervisor.has_children() || (!keep && !platform_processes(data).empty());
  if (!holder && !runs) return nobody;
  return supervisor.stop(keep ? Supervisor::End::kKeep : Supervisor::End::kForGood, kPatience);
}

// Returns the programs of `sluice run` that the platform now holds.
std::vector<std::string> programs(const Session& session) {
  std::vector<std::string> ids;
  const auto state = session.node().json(verb::get, "/v1/state");
  if (!state.ok()) return ids;
  for (const auto& i : state->value("instances", nlohmann::json::array()))
    if (i.value("foreign", false) && i.value("state", "gone") != "gone")
      ids.push_back(i.value("id", ""));
  return ids;
}

Result<void> down_and_say(const Session& session, bool keep) {
  const std::vector<std::string> running = keep ? std::vector<std::string>() : programs(session);
  SLUICE_TRY(down(session, keep));
  if (session.json()) {
    print({{"data", session.data},
           {"instances", keep ? "go on" : "ended"},
           {"gateway", keep ? "serves on" : "ended"},
           {"programs_not_held", running}});
  } else if (!running.empty()) {
    std::cerr << "sluice: " << listed(running) << (running.size() == 1 ? " goes" : " go")
              << " on, held to no slice any more: `sluice down` does not end programs of `sluice "
                 "run`\n";
  }
  return {};
}

}  // namespace

void add_up(CLI::App& app, Session& session, Outcome& outcome) {
  auto f = std::make_shared<UpFlags>();
  CLI::App* up_command =
      app.add_subcommand("up", "start the platform on this machine and watch over it");
  up_command
      ->add_option("--listen", f->listen,
                   "where functions are served; port 0: any (run/gateway.address)")
      ->capture_default_str();
  up_command
      ->add_option("--api", f->api, "where the API is served over TCP, for bearers of the token")
      ->capture_default_str();
  std::string policies;
  for (const policy::Bundle& b : policy::bundles())
    policies += "\n" + std::string(b.name) + ": " + std::string(b.summary);
  up_command->add_option("--policy", f->policy, "of functions that name none:" + policies)
      ->capture_default_str();
  std::string plans;
  for (const policy::Plan& p : policy::plans())
    plans += "\n" + std::string(p.name) + ": " + std::string(p.summary);
  up_command
      ->add_option("--plan", f->plan,
                   "of training functions that name none, in place of their policy's:" + plans)
      ->check(CLI::IsMember(policy::plan_names()));
  up_command
      ->add_option(
          "--servers", f->servers,
          "the devices in groups, each a node: 4, or inference=2,training=2, of which those "
          "of inference go on loan to training while they are idle")
      ->check([](const std::string& text) {
        const auto servers = control::servers_from(text);
        return servers.ok() ? std::string() : servers.error().message;
      });
  up_command
      ->add_option("--loans", f->loans,
                   "which servers go back: those that disturb training least by FaPES's or Lyra's "
                   "rule, any (one-way); none: nothing is lent")
      ->check(CLI::IsMember(
          std::vector<std::string>(policy::reclaim_rules().begin(), policy::reclaim_rules().end())))
      ->capture_default_str();
  up_command->add_option("--lend-after", f->lend_after, "seconds without an instance of inference")
      ->check(CLI::Range(0.0, 86'400.0))
      ->capture_default_str();
  up_command
      ->add_option("--spare-servers", f->spare_servers,
                   "idle servers of inference that are not lent")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  up_command
      ->add_option("--checkpoints", f->checkpoints,
                   "an absolute path, perhaps of a mounted disk: jobs' checkpoints are copied "
                   "there, and a job whose own are gone goes on from them")
      ->check([](const std::string& path) {
        const auto checked = control::CheckpointCopies::check(path);
        return checked.ok() ? std::string() : checked.error().message;
      });
  up_command->add_option("--settings", f->settings_file,
                         "YAML file of NAME: VALUE, settings of that policy (`sluice policies "
                         "NAME` shows them)");
  up_command->add_flag(
      "!--no-refine", f->refine,
      "decisions go by profiles as they were measured or estimated, whatever live instances need");
  add_devices_option(*up_command, f->devices);
  up_command->add_option("--price-per-core-hour", f->price, "what costs are counted with")
      ->check(number_from(0, kHighestPrice));
  up_command->add_option("--price-per-gpu-hour", f->gpu_price, "the same of a GPU")
      ->check(number_from(0, kHighestPrice));
  add_price_option(*up_command, f->type_prices);
  up_command->add_option("--nvml", f->nvml,
                         "NVIDIA's management library, where not where the loader looks; none: "
                         "this machine's GPUs are left alone");
  up_command->add_option("--mps", f->mps,
                         "NVIDIA's MPS control program (nvidia-cuda-mps-control): GPUs have slices "
                         "of their SMs; without, a slice is of the whole GPU's time");
  up_command
      ->add_option("--gpu-store", f->gpu_store,
                   "of each GPU's memory, as 4GiB, set aside for models that programs share")
      ->transform(CLI::AsSizeValue(false));
  up_command
      ->add_option("--first-uid", f->first_uid,
                   "as root: uids of instances begin here, for a second platform on this machine")
      ->check(CLI::Range(1, kHighestUid));
  up_command->add_option("--threads", f->threads, "loops of the gateway; 0: one per core less one")
      ->check(CLI::Range(0, kMostThreads));
  up_command
      ->add_option("--arbiter", f->arbiter,
                   "of every device that can run it (shares: GPUs alone): which decides which "
                   "client may run now. Without, each device runs that of the policy of the "
                   "function that it serves first, and a GPU shares in place of planned")
      ->check(CLI::IsMember(policy::arbiter_names()));
  up_command->add_option("--runtime", f->runtime,
                         "path of sluice-runtime; none: functions with a model cannot start");
  up_command->add_option("--tls-cert", f->tls_cert, "PEM file: serve functions over TLS");
  up_command->add_option("--tls-key", f->tls_key, "PEM file");
  up_command->add_option("--gateway-token-file", f->gateway_token_file,
                         "holds what callers of functions without a token of their own must bear");
  up_command
      ->add_option("--max-body", f->max_body,
                   "largest body of a request, as 256MiB; at most 1GiB; default: 64MiB")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(size_t{1}, kLargestBody));
  up_command->add_flag("--strict-readiness", f->strict_readiness,
                       "/v2/health/ready says 200 only while every function has a ready instance");
  up_command->callback([f, &session, &outcome] { outcome = up(session, *f); });
  auto keep = std::make_shared<bool>(false);
  CLI::App* down_command =
      app.add_subcommand("down", "end the platform: drain, stop all instances and processes");
  down_command->add_flag("--keep", *keep,
                         "instances and the gateway go on and serve; the next `sluice up` adopts "
                         "the instances and replaces the gateway (to upgrade, say)");
  down_command->callback([=, &session, &outcome] { outcome = down_and_say(session, *keep); });
}

}  // namespace sluice::cli
