// The part of `sluice quickstart --training` that shows servers on loan.
#include <iostream>

#include "cli/listing.h"
#include "cli/quickstart.h"
#include "cli/quickstart_platform.h"
#include "cli/table.h"

namespace sluice::cli {
namespace {

using nlohmann::json;
using wire::http::verb;

Result<void> print_nodes(const Session& session) {
  SLUICE_ASSIGN(nodes, session.api(verb::get, "/v1/nodes"));
  std::cout << listing("nodes", nodes);
  return {};
}

}  // namespace

Result<json> play_loan(const Session& session, const QuickstartFlags& f, const Plan& plan) {
  const SteadyClock clock;
  std::cout
      << "\n== servers on loan: the devices as two servers of inference and two of training\n";
  SLUICE_ASSIGN(platform, QuickstartPlatform::start(
                              session, f.policy,
                              {"--servers", "inference=2,training=2", "--lend-after", "2"}));
  SLUICE_ASSIGN(devices, platform.devices(session));
  if (devices < 4) {
    std::cout << "left out: it takes four devices\n";
    return json::object();
  }
  const Time up = clock.now();
  SLUICE_TRY(deploy_job(session, f));
  SLUICE_TRY(wait_for(
      [&]() -> Result<bool> {
        SLUICE_ASSIGN(nodes, session.api(verb::get, "/v1/nodes"));
        return std::ranges::any_of(nodes,
                                   [](const json& n) { return n["user"] != n["virtual_cluster"]; });
      },
      Seconds(60), "the loan"));
  const double lent = seconds(clock.now() - up);
  std::cout << "no function is there: after " << fixed(lent, 1)
            << " s those of inference are on loan\n";
  SLUICE_TRY(print_nodes(session));
  const Time applied = clock.now();
  SLUICE_TRY(deploy(session, {plan}, f));
  const double served = seconds(clock.now() - applied);
  std::cout << "\n"
            << plan.spec.name.name << " is applied, and ready after " << fixed(served, 1)
            << " s on a server that went back\n";
  SLUICE_TRY(print_nodes(session));
  return json{{"lent_s", lent}, {"served_s", served}};
}

}  // namespace sluice::cli
