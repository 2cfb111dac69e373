#include "cli/kube_client.h"

#include <unistd.h>

#include <csignal>

#include "kube/wait.h"

namespace sluice::cli {

void end_when_asked() {
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { ::_exit(0); });
}

Result<kube::Config> kube_config(const std::string& kubeconfig) {
  return kubeconfig.empty() ? kube::default_config() : kube::config_from_file(kubeconfig);
}

Result<std::unique_ptr<KubeThread>> KubeThread::make(const std::string& kubeconfig) {
  SLUICE_ASSIGN(config, kube_config(kubeconfig));
  std::unique_ptr<KubeThread> made(new KubeThread);
  SLUICE_ASSIGN(client, kube::Client::make(made->io_, std::move(config)));
  made->client_ = std::move(client);
  return made;
}

void KubeThread::start() {
  thread_ = std::thread([this] { io_.run(); });
}

void KubeThread::spawn(boost::asio::awaitable<void> work) {
  kube::spawn(io_, std::move(work));
}

void KubeThread::stop() {
  io_.stop();
  if (thread_.joinable()) thread_.join();
}

KubeThread::~KubeThread() {
  stop();
}

}  // namespace sluice::cli
