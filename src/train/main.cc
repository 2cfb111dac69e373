// sluice-trainer: a worker of an elastic training job. The job's controller (JOB_CONTROLLER) says
// what to train; the environment says which worker of which job this is.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>

#include "base/log.h"
#include "train/trainer.h"

namespace {

std::atomic<bool> ending = false;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int main(int argc, char**) {
  using namespace sluice;
  train::TrainerSettings settings;
  const auto controller = wire::parse_endpoint(variable("JOB_CONTROLLER"));
  settings.job = variable("JOB_NAME");
  settings.key = variable("JOB_KEY");
  settings.worker = variable("JOB_WORKER");
  if (const std::string port = variable("PORT"); !port.empty())
    settings.ready_port = std::atoi(port.c_str());
  if (argc > 1 || !controller.ok() || settings.job.empty() || settings.worker.empty()) {
    std::cerr << "sluice-trainer: a worker of a training function; the platform starts it, with\n"
                 "JOB_CONTROLLER, JOB_NAME, JOB_KEY and JOB_WORKER in its environment\n";
    return 2;
  }
  settings.controller = *controller;
  std::signal(SIGTERM, [](int) { ending = true; });
  std::signal(SIGINT, [](int) { ending = true; });
  log::start(settings.worker);
  const SteadyClock clock;
  try {
    const Result<void> done = train::train(settings, clock, ending);
    if (!done.ok()) log::error("{}", done.error().message);
    return done.ok() ? 0 : 1;
  } catch (const std::exception& e) {  // libtorch's, whose stack in C++ says nothing to a user
    const std::string text = e.what();
    log::error("{}", text.substr(0, text.find('\n')));
    return 1;
  }
}
