// `sluice kube controller`: of several, one leads by a Lease and runs what is in kube_leader.h.
// Without the lease it ends at once: the next one reads all that it needs from objects and agents.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/doorbell.h"
#include "base/log.h"
#include "cli/kube.h"
#include "cli/kube_client.h"
#include "cli/kube_leader.h"
#include "kube/lease.h"
#include "kube/wait.h"
#include "policy/plan/plans.h"

namespace sluice::cli {
namespace {

struct ControllerFlags {
  LeaderSettings leader{.listen = "0.0.0.0:7443", .webhook_listen = "0.0.0.0:9443"};
  std::string kubeconfig, identity;
  std::vector<std::string> settings;
};

Result<void> run(ControllerFlags flags) {
  end_when_asked();
  for (const std::string& s : flags.settings)
    flags.leader.control.bundle_settings[s.substr(0, s.find('='))] =
        s.substr(std::min(s.find('='), s.size() - 1) + 1);
  const SteadyClock clock;
  SLUICE_ASSIGN(kube, KubeThread::make(flags.kubeconfig));
  Doorbell held;
  kube::Lease lease(
      kube->client(),
      {.space = kube->client().config().space,
       .name = "sluice-controller",
       .identity = flags.identity},
      clock, [&] { held.ring(); },
      [] {
        log::error("the lease is lost: another may lead");
        std::_Exit(1);
      });
  kube->start();
  kube->spawn(lease.run());
  log::info("{} waits for the lease", flags.identity);
  held.wait();
  log::info("{} leads", flags.identity);
  const Result<void> outcome = lead(flags.leader, *kube, clock, [&lease] { return lease.holds(); });
  (void)kube::run_on(kube->io(), [](kube::Lease& l) -> boost::asio::awaitable<int> {
    co_await l.release();
    co_return 0;
  }(lease));
  log::info("{} ends", flags.identity);
  // Coroutines still run: the process ends here.
  if (!outcome.ok()) log::error("{}", outcome.error().message);
  std::_Exit(outcome.ok() ? 0 : 1);
}

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

void add_kube_controller(CLI::App& kube, Outcome& outcome) {
  auto flags = std::make_shared<ControllerFlags>();
  LeaderSettings& leader = flags->leader;
  leader.control.give_up_only = false;
  flags->identity = host_name();
  CLI::App* command = kube.add_subcommand("controller", "the control loop; one leads by a Lease");
  command->add_option("--data", leader.data, "its history and copies of models")->required();
  command->add_option("--image", leader.image, "of functions' Pods")->required();
  command->add_option("--policy", leader.control.bundle)->capture_default_str();
  command
      ->add_option("--plan", leader.control.plan,
                   "of training functions that name none, in place of their policy's")
      ->check(CLI::IsMember(policy::plan_names()));
  command->add_option("--setting", flags->settings, "NAME=VALUE of the policy; may be repeated");
  command->add_option("--identity", flags->identity, "in the Lease")->capture_default_str();
  command->add_option("--listen", leader.listen, "of its API, with TLS")->capture_default_str();
  command->add_option("--webhook-listen", leader.webhook_listen, "of admission, with TLS")
      ->capture_default_str();
  command->add_option("--kubeconfig", flags->kubeconfig, "without, this Pod's ServiceAccount");
  command->callback([flags, &outcome] {
    log::start("controller");
    outcome = run(std::move(*flags));
  });
}

}  // namespace sluice::cli
