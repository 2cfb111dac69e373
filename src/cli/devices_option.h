// `--devices N` or `--devices NAME=COUNTxMILLICORESm,…`, which `sluice up` passes on to the node
// daemon.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "node/cpu_devices.h"

namespace sluice::cli {

inline void add_devices_option(CLI::App& command, std::string& devices) {
  command
      .add_option("--devices", devices,
                  "CPU devices to make of this machine: how many (0: at least four, all equal), or "
                  "types of them, as big=1x740m,little=2x400m: how many of each, and the "
                  "thousandths of a core of one")
      ->check([](const std::string& text) {
        node::CpuSettings settings;
        const Result<void> read = node::parse_cpu_devices(text, settings);
        const std::string why = read.ok() ? "" : read.error().message;
        return why.starts_with("devices: ") ? why.substr(9) : why;  // the option's name is said
      });
}

}  // namespace sluice::cli
