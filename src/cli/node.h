// The node daemon's process: its flags and its main, for `sluice node` and for the agent of a
// cluster, whose instances are Pods.
#pragma once

#include <CLI/App.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "node/daemon_settings.h"

namespace sluice::cli {

struct NodeFlags {
  node::DaemonSettings settings;
  std::string devices;
  std::vector<std::string> prices;  // by type
  int listen_fd = -1;
  int grace_ms = 30'000;
  bool share_uid = false;
};

// Adds the options that both have. `flags` outlives the parse.
void add_node_options(CLI::App& app, NodeFlags& flags);

// Adds those for instances that are Pods.
void add_pod_options(CLI::App& agent, NodeFlags& flags);

// Runs the daemon on the loop until SIGTERM or SIGINT; its instances go on. It serves its API at
// DATA/run/node.sock. `pods`: of the instances; nullptr: they are processes of this machine.
// Belongs to the loop, which has one thread, and outlives the call.
Result<void> run_node(boost::asio::io_context& io, NodeFlags flags, node::Pods* pods = nullptr);

// Adds the subcommand `node`; if it was chosen, `outcome` is its result.
void add_node_command(CLI::App& app, Result<void>& outcome);

}  // namespace sluice::cli
