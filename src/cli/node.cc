#include "cli/node.h"

#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>

#include "arbiters/arbiter.h"
#include "base/log.h"
#include "cli/devices_option.h"
#include "cli/inherited.h"
#include "cli/limits.h"
#include "cli/price_option.h"
#include "cli/programs.h"
#include "node/daemon.h"
#include "node/node_api.h"

namespace sluice::cli {
namespace {

constexpr Nanos kLeaving = Seconds(10);  // for helpers that end with the daemon

constexpr int kLongestGraceMs = 3'600'000;

// A process under a slice costs the daemon three descriptors, so it takes as many as allowed.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) log::warn("descriptors stay at {}", limit.rlim_cur);
}

// Completes the settings by the flags that are not settings themselves.
Result<void> complete(NodeFlags& flags) {
  if (flags.settings.gpu.library == "none") flags.settings.gpu.library.clear();
  for (const std::string& text : flags.prices) {
    SLUICE_ASSIGN(price, node::parse_type_price(text));
    flags.settings.prices.insert_or_assign(price.first, price.second);
  }
  flags.settings.grace = Millis(flags.grace_ms);
  flags.settings.own_uids = geteuid() == 0 && !flags.share_uid;
  if (flags.settings.runtime == "none") flags.settings.runtime.clear();
  return flags.devices.empty() ? Result<void>()
                               : node::parse_cpu_devices(flags.devices, flags.settings.cpu);
}

}  // namespace

Result<void> run_node(boost::asio::io_context& io, NodeFlags flags, node::Pods* pods) {
  log::start("node");
  keep_inherited();
  raise_descriptor_limit();
  const SteadyClock clock;
  SLUICE_TRY(complete(flags));
  flags.settings.pods = pods;
  Fd listening(flags.listen_fd);
  const std::string socket = flags.settings.paths.node_socket();
  SLUICE_ASSIGN(daemon, node::Daemon::open(io, clock, std::move(flags.settings)));
  if (!listening.valid()) {
    SLUICE_ASSIGN(made, wire::listen_on({.path = socket}));
    listening = std::move(made);
  }
  wire::HttpServer server(io, std::move(listening), node::node_api(*daemon));
  boost::asio::signal_set signals(io, SIGTERM, SIGINT);
  boost::asio::steady_timer patience(io);
  signals.async_wait([&](const boost::system::error_code&, int) {
    patience.expires_after(kLeaving);
    patience.async_wait([&](const boost::system::error_code&) { io.stop(); });
    boost::asio::co_spawn(io, daemon->leave(), [&](const std::exception_ptr&) { io.stop(); });
  });
  log::info("serves on {}", socket);
  io.run();
  log::info("ends; instances go on");
  return {};
}

void add_node_options(CLI::App& node, NodeFlags& flags) {
  node::DaemonSettings& s = flags.settings;
  node.add_option("--data", s.paths.data, "data directory")->required();
  add_devices_option(node, flags.devices);
  node.add_option("--price-per-core-hour", s.cpu.price_per_core_hour)
      ->check(number_from(0, kHighestPrice))
      ->capture_default_str();
  node.add_option("--nvml", s.gpu.library,
                  "NVIDIA's management library, which tells the GPUs; none: no GPUs")
      ->capture_default_str();
  node.add_option("--mps", s.gpu.mps,
                  "NVIDIA's MPS control program (nvidia-cuda-mps-control): GPUs have slices of "
                  "their SMs; without, a slice is of the whole GPU's time");
  node.add_option("--gpu-store", s.gpu.store,
                  "of each GPU's memory, as 4GiB, set aside for models that programs share")
      ->transform(CLI::AsSizeValue(false));
  node.add_option("--price-per-gpu-hour", s.gpu.price_per_hour)
      ->check(number_from(0, kHighestPrice))
      ->capture_default_str();
  add_price_option(node, flags.prices);
  node.add_option(
          "--arbiter", s.arbiter,
          "which decides which client may run now, on every device that can run it (shares: GPUs "
          "alone); without, a device's first instance chooses")
      ->check(CLI::IsMember(policy::arbiter_names()));
  node.add_option("--default-arbiter", s.default_arbiter,
                  "of a device whose first instance names none; planned is shares on a GPU")
      ->check(CLI::IsMember(policy::arbiter_names(DeviceKind::kCpu)))
      ->capture_default_str();
  node.add_option("--grace-ms", flags.grace_ms,
                  "from being asked to end to being killed, where no other time is given")
      ->check(CLI::Range(0, kLongestGraceMs))
      ->capture_default_str();
}

void add_pod_options(CLI::App& agent, NodeFlags& flags) {
  node::DaemonSettings& s = flags.settings;
  agent.add_option("--permits", s.paths.permits,
                   "the folder of permit.sock, which has nothing else and is mounted into Pods; "
                   "without, DATA/run");
  agent
      .add_option("--pod-cgroups", s.pod_cgroups,
                  "where the machine's cgroups are mounted, in which the kubelet has its Pods")
      ->capture_default_str();
}

void add_node_command(CLI::App& app, Result<void>& outcome) {
  auto flags = std::make_shared<NodeFlags>();
  const auto beside_us = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const auto runtime = beside_us / "sluice-runtime";
  node::DaemonSettings& s = flags->settings;
  s.runtime = std::filesystem::exists(runtime) ? runtime.string() : "none";
  s.gpu.store_program = beside_us / "sluice-store";
  CLI::App* node = app.add_subcommand("node", "the node daemon (started by `sluice up`)");
  add_node_options(*node, *flags);
  node->add_option("--runtime", s.runtime,
                   "path of sluice-runtime; none: programs alone are served")
      ->capture_default_str();
  node->add_option("--first-uid", s.first_uid,
                   "the first of 1000 uids for instances (as root); without, a free block is found")
      ->check(CLI::Range(1, kHighestUid));
  node->add_flag("--share-uid", flags->share_uid, "instances keep the daemon's uid");
  node->add_option_function<int>(
          "--replaced-within-ms", [flags](int ms) { flags->settings.replaced_within = Millis(ms); },
          "what functions' ready instances on a device that fails have, until they end")
      ->check(CLI::Range(0, kLongestGraceMs));
  node->add_option("--listen-fd", flags->listen_fd, "inherited listening socket for the API")
      ->check(CLI::Range(0, kHighestDescriptor));
  node->callback([flags, &outcome] {
    if (outcome = provide_missing_programs(flags->settings.paths.data); !outcome.ok()) return;
    flags->settings.libraries = folder_of_programs(flags->settings.paths.data);
    boost::asio::io_context io{1};
    outcome = run_node(io, std::move(*flags));
  });
}

}  // namespace sluice::cli
