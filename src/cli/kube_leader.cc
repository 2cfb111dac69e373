#include "cli/kube_leader.h"

#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>

#include "base/doorbell.h"
#include "base/system_error.h"
#include "cli/kube_identities.h"
#include "control/api/run.h"
#include "control/kube/desired_objects.h"
#include "control/kube/kube_cluster.h"
#include "control/kube/kube_models.h"
#include "control/kube/kube_objects.h"
#include "control/kube/operator.h"
#include "control/kube/peer_secrets.h"
#include "control/kube/webhook.h"
#include "control/local/model_check.h"
#include "control/local/model_copies.h"
#include "control/local/store.h"
#include "kube/wait.h"
#include "predict/profile_table.h"
#include "wire/http/tls_front.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

constexpr Nanos kOperatorTurn = Millis(250), kLeastPause = Millis(50);

// Opens a socket to the network. The API server, which calls the API for `kubectl sluice` and the
// webhook, shows no certificate: callers of the API have the token, and the webhook keeps no
// secret.
Result<std::unique_ptr<wire::TlsFront>> open_front(const std::string& listen,
                                                   const std::string& tls, const std::string& to) {
  SLUICE_ASSIGN(at, wire::parse_endpoint(listen));
  SLUICE_ASSIGN(listening, wire::listen_on(at));
  return std::make_unique<wire::TlsFront>(
      std::move(listening), wire::TlsFrontSettings{.tls = tls, .client = "", .to = to});
}

// Follows objects and the API in turns, on a thread of its own. A turn begins as soon as an object
// has changed; but turns take half of the time at most, as each asks the API for all functions.
void run_operator(std::stop_token stop, const Clock& clock, Doorbell& changed,
                  control::Operator& it) {
  while (!stop.stop_requested()) {
    const Time begun = clock.now();
    it.turn(unix_now());
    const Nanos pause = std::max<Nanos>(kLeastPause, clock.now() - begun);
    usleep(static_cast<useconds_t>(pause / Micros(1)));
    if (pause < kOperatorTurn) changed.wait(kOperatorTurn - pause);
  }
}

// What coroutines of the client's thread refer to. It lives as long as the process.
class Leader {
 public:
  Leader(const LeaderSettings& settings, KubeThread& kube, const Clock& clock,
         std::function<bool()> leads)
      : settings_(settings),
        kube_(kube),
        clock_(clock),
        own_(make_identities(kube)),
        run_(settings_.data + "/run"),
        objects_(client(), where(), leads),
        writer_(client(), leads) {}

  Result<void> run();

 private:
  kube::Client& client() const { return kube_.client(); }
  std::string tls() const { return run_ + "/tls"; }
  control::KubeObjectsSettings where() const;
  void follow();
  Result<control::ApiSockets> api_sockets();
  Result<void> open_webhook();

  const LeaderSettings settings_;
  KubeThread& kube_;
  const Clock& clock_;
  const Identities own_;
  const std::string run_;  // the folder of its sockets
  Doorbell changed_;       // an object has
  control::Operator::Functions functions_{client(), control::kFunctionsPath, "",
                                          [this] { changed_.ring(); }};
  control::Operator::Functions trainings_{client(), control::kTrainingPath};
  control::KubeObjects objects_;
  control::ObjectWriter writer_;
  std::unique_ptr<control::Webhook> webhook_;
};

control::KubeObjectsSettings Leader::where() const {
  control::KubeObjectsSettings where{.space = own_.space};
  where.pods.image = settings_.image;
  where.owner = [this](const FunctionName& f) {
    const auto object = functions_.find({f.space, f.name});
    return object != nullptr ? object->uid : std::string();
  };
  return where;
}

// Returns once every listing is complete.
void Leader::follow() {
  constexpr int kWriters = 4;
  boost::asio::post(kube_.io(), [this] { objects_.run(); });
  kube_.spawn(functions_.run());
  kube_.spawn(trainings_.run());
  for (int i = 0; i < kWriters; ++i) kube_.spawn(writer_.run());
  while (!objects_.listed() || !functions_.synced() || !trainings_.synced()) usleep(10'000);
}

Result<control::ApiSockets> Leader::api_sockets() {
  control::ApiSockets sockets;
  SLUICE_ASSIGN(local, wire::listen_on({.path = run_ + "/api.sock"}));
  sockets.local = std::move(local);
  SLUICE_ASSIGN(behind_front, wire::listen_on({.path = run_ + "/remote.sock"}));
  sockets.tcp = std::move(behind_front);
  sockets.token = insist<std::string>(control::kTokenSecret, [&] {
    return kube::run_on(kube_.io(), control::api_token(client(), own_.space));
  });
  return sockets;
}

Result<void> Leader::open_webhook() {
  SLUICE_ASSIGN(listening, wire::listen_on({.path = run_ + "/webhook.sock"}));
  const control::PodAdditions additions{.permits = control::PodSettings().permits,
                                        .image = settings_.image};
  webhook_ = std::make_unique<control::Webhook>(client(), std::move(listening), additions, clock_);
  boost::asio::post(kube_.io(), [this] { webhook_->run(); });
  while (!webhook_->knows_all()) usleep(10'000);
  return {};
}

Result<void> Leader::run() {
  std::error_code fault;
  fs::create_directories(tls(), fault);
  if (fault) return system_error(tls(), fault.value());
  SLUICE_TRY(keep_own_certificate(tls(), own_));
  kube_.spawn(renew_certificates(client(), own_, tls()));
  follow();

  SLUICE_ASSIGN(store, control::Store::open(settings_.data + "/control.db"));
  // One slow server holds up no other function's file.
  control::ModelCopies files(settings_.data + "/models", control::check_model_file, {}, {},
                             Seconds(2));
  control::KubeModels models(files);
  control::ProfileObjects profiles(client(), writer_, own_.space);
  control::DesiredObjects desired(client(), functions_, writer_, profiles);
  ShownToPeers shown(own_.authority);
  control::KubeCluster cluster(
      objects_, clock_, [&shown](const wire::Endpoint& peer) { return shown.address_of(peer); },
      unix_now());
  predict::ProfileTable predictor;
  const control::Ports ports{desired, store, cluster, predictor, clock_, nullptr, &models};

  SLUICE_ASSIGN(sockets, api_sockets());
  SLUICE_TRY(open_webhook());
  SLUICE_ASSIGN(api, open_front(settings_.listen, tls(), run_ + "/remote.sock"));
  SLUICE_ASSIGN(webhook, open_front(settings_.webhook_listen, tls(), run_ + "/webhook.sock"));
  const std::array fronts{std::move(api), std::move(webhook)};  // until the loop ends
  control::Operator it({.path = run_ + "/api.sock"}, functions_, trainings_, writer_,
                       "http://sluice-gateway." + own_.space);
  const std::jthread operator_thread(
      [&](std::stop_token stop) { run_operator(stop, clock_, changed_, it); });
  return control::run_control(ports, settings_.control, std::move(sockets));
}

}  // namespace

Result<void> lead(const LeaderSettings& settings, KubeThread& kube, const Clock& clock,
                  std::function<bool()> leads) {
  auto* leader = new Leader(settings, kube, clock, std::move(leads));  // as long as the process
  return leader->run();
}

}  // namespace sluice::cli
