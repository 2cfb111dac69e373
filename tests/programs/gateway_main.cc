// `sluice gateway` alone, for tests that need the gateway and nothing else of the platform.
#include <cstdio>

#include "cli/gateway.h"

int main(int argc, char** argv) {
  CLI::App app("gateway");
  sluice::Result<void> outcome;
  sluice::cli::add_gateway_command(app, outcome);
  CLI11_PARSE(app, argc, argv);
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "sluice: %s\n", outcome.error().message.c_str());
  return 1;
}
