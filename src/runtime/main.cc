// sluice-runtime: models in processes of their own.
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "runtime/confinement.h"
#include "runtime/engine.h"
#include "runtime/environment.h"
#if SLUICE_WITH_TORCH
#include "runtime/engine_torch.h"
#endif
#include "runtime/serving.h"
#include "runtime/zygote.h"
#include "wire/json/json.h"
#include "wire/json/operator_graph_json.h"

namespace sluice::runtime {
namespace {

struct ServeFlags {
  std::string model;
  std::string listen = "127.0.0.1:8080";
  std::string name;
  std::string version = "1";
  int max_batch = 8;
  int batch = 0;  // 0: as max_batch
  int max_delay_us = 0;
  int threads = 1;
};

// The first process of a container ignores a signal without a handler. Until the server has its own
// there is nothing to drain.
void end_while_loading() {
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { ::_exit(0); });
}

// Under a slice (SLUICE_PERMIT_SOCKET) it registers before it loads, so that the node daemon finds
// it early; loading is held by the slice's CPU quota alone.
Result<void> serve(const ServeFlags& flags) {
  end_while_loading();
  const char* slice = std::getenv("SLUICE_PERMIT_SOCKET");
  Gate gate(slice != nullptr ? slice : "");
  gate.enter();
  SLUICE_ASSIGN(file, read_model_file(flags.model));
  SLUICE_ASSIGN(model, load_model(file));
  const int batch = flags.batch > 0 ? flags.batch : flags.max_batch;
  SLUICE_ASSIGN(refused, warm_up(*model, file.spec, batch));
  if (!refused.empty()) log::warn("{}: not warmed up: {}", flags.model, refused);
  SLUICE_ASSIGN(endpoint, wire::parse_endpoint(flags.listen));
  SLUICE_ASSIGN(listening, wire::listen_on(endpoint));
  ServedModel served{.name = flags.name.empty() ? file.name : flags.name,
                     .version = flags.version,
                     .file = file,
                     .batching = {std::max(batch, flags.max_batch), Micros(flags.max_delay_us)},
                     .batch = batch};
  log::info("{} from {} on {}", served.name, flags.model, to_string(endpoint));
  Serving serving(*model, gate, std::move(served), std::move(listening), flags.threads);
  serving.run();
  return {};
}

struct InspectFlags {
  std::string model, inputs = "[]";
  int batch = 0;
  int model_fd = -1, answer_fd = STDOUT_FILENO;
};

// Reads what was asked, opens the file, and gives up all privileges before torch sees it.
Result<ModelFile> confined_file(const InspectFlags& flags) {
  ModelFile file;
  file.spec.path = flags.model;
  SLUICE_ASSIGN(list, wire::parse_json(flags.inputs));
  for (const nlohmann::json& item : list) {
    SLUICE_ASSIGN(one, wire::tensor_spec_from(item));
    file.spec.inputs.push_back(std::move(one));
  }
  SLUICE_ASSIGN(opened, flags.model_fd >= 0 ? RegularFile::of(Fd(flags.model_fd), flags.model)
                                            : RegularFile::open(flags.model));
  file.opened = std::make_shared<const RegularFile>(std::move(opened));
  SLUICE_TRY(confine(::geteuid() == 0 ? unprivileged_uid() : 0));
  constexpr uint64_t kCpuSeconds = 3600;  // its caller ends it earlier, unless that has died
  limit(memory_to_load(file.opened->size()), kCpuSeconds);
  if (flags.model_fd >= 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of the uid clears it
  return file;
}

Result<nlohmann::json> inspected(const InspectFlags& flags) {
  SLUICE_ASSIGN(file, confined_file(flags));
#if SLUICE_WITH_TORCH
  SLUICE_ASSIGN(found, inspect_torchscript(file));
  if (flags.batch > 0) {
    SLUICE_ASSIGN(graph, operators_of_torchscript(file, flags.batch));
    found["graph"] = wire::to_json(graph);
  }
  return found;
#else
  return Error{ErrorKind::kInvalid, file.spec.path + ": this build has no TorchScript"};
#endif
}

// What the model prints goes nowhere: the answer has a descriptor of its own.
int inspect(const InspectFlags& flags) {
  const Fd answer(::fcntl(flags.answer_fd, F_DUPFD_CLOEXEC, 3));
  const Fd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::dup2(null.get(), STDOUT_FILENO);
  ::dup2(null.get(), STDERR_FILENO);
  const auto found = inspected(flags);
  const nlohmann::json said =
      found.ok() ? *found : nlohmann::json{{"error", found.error().message}};
  // A model's names and messages may be no UTF-8.
  const std::string text =
      said.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = ::write(answer.get(), text.data() + at, text.size() - at);
    if (n <= 0) return 1;
    at += static_cast<size_t>(n);
  }
  return found.ok() ? 0 : 2;
}

int report(const Result<void>& outcome) {
  if (outcome.ok()) return 0;
  std::fprintf(stderr, "sluice-runtime: %s\n", outcome.error().message.c_str());
  return outcome.error().kind == ErrorKind::kInvalid ? 2 : 1;
}

int run(int argc, char** argv) {
  CLI::App app("Serves models; started by the node daemon, or by hand");
  app.set_version_flag("--version", SLUICE_VERSION);
  app.require_subcommand(1);

  ServeFlags flags;
  CLI::App* serve_command =
      app.add_subcommand("serve", "one model over the Open Inference Protocol");
  serve_command->add_option("--model", flags.model, "model file; NAME.json lies beside it")
      ->required();
  serve_command->add_option("--listen", flags.listen, "unix:/path, host:port or port")
      ->capture_default_str();
  serve_command->add_option("--name", flags.name,
                            "what clients call it; default: its metadata's name");
  serve_command->add_option("--model-version", flags.version)->capture_default_str();
  serve_command
      ->add_option("--batch", flags.batch,
                   "inferences that run together at most; default: --max-batch")
      ->check(CLI::Range(1, 1024));
  serve_command
      ->add_option("--max-batch", flags.max_batch, "the largest batch, as its configuration says")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  serve_command->add_option("--max-delay-us", flags.max_delay_us, "that a request waits for others")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  serve_command
      ->add_option("--threads", flags.threads, "that run the model, where no slice gives it cores")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();

  InspectFlags asked;
  CLI::App* inspect_command =
      app.add_subcommand("inspect", "prints as JSON what a TorchScript model takes and returns");
  inspect_command->add_option("--model", asked.model)->required();
  inspect_command->add_option(
      "--inputs", asked.inputs,
      "[{name, datatype, shape}…]: runs the model with zeros to see outputs");
  inspect_command
      ->add_option("--graph", asked.batch, "its operators in a run of this batch; 0: not")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  inspect_command->add_option("--model-fd", asked.model_fd,
                              "the file, inherited; default: opens it");
  inspect_command->add_option("--answer-fd", asked.answer_fd, "an inherited descriptor")
      ->capture_default_str();

  int control_fd = -1;
  CLI::App* zygote_command =
      app.add_subcommand("zygote", "forks templates and instances on request");
  zygote_command->add_option("--control-fd", control_fd, "an inherited SOCK_SEQPACKET socket")
      ->required()
      ->check(CLI::Range(0, 1 << 20));

  CLI11_PARSE(app, argc, argv);
  complete_environment(argv);
  log::start("runtime");
  if (zygote_command->parsed()) return run_zygote(Fd(control_fd));
  if (inspect_command->parsed()) return inspect(asked);
  return report(serve(flags));
}

}  // namespace
}  // namespace sluice::runtime

int main(int argc, char** argv) {
  return sluice::runtime::run(argc, argv);
}
