// `--price TYPE=PRICE`, which `sluice up` passes on to the node daemon.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "node/type_prices.h"

namespace sluice::cli {

inline void add_price_option(CLI::App& command, std::vector<std::string>& prices) {
  command
      .add_option("--price", prices,
                  "TYPE=PRICE of a whole device per hour, as cpu/500m=0.02, in place of the price "
                  "per core or GPU; `sluice get devices` shows the types")
      ->delimiter(',')
      ->check([](const std::string& text) {
        const auto read = node::parse_type_price(text);
        return read.ok() ? std::string() : read.error().message;
      });
}

}  // namespace sluice::cli
