// sluice-runtime: models in processes of their own.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/log.h"
#include "runtime/environment.h"
#if SLUICE_WITH_TORCH
#include "runtime/engine_torch.h"
#endif
#include "runtime/serving.h"
#include "runtime/zygote.h"
#include "wire/json.h"
#include "wire/operator_graph_json.h"

namespace sluice::runtime {
namespace {

struct ServeFlags {
  std::string model;
  std::string listen = "127.0.0.1:8080";
  std::string name;
  std::string version = "1";
  int max_batch = 8;
  int max_delay_us = 0;
  int threads = 1;
};

Result<void> serve(const ServeFlags& flags) {
  SLUICE_ASSIGN(file, read_model_file(flags.model));
  SLUICE_ASSIGN(model, load_model(file));
  SLUICE_TRY(warm_up(*model, file.spec, 1));
  SLUICE_ASSIGN(endpoint, wire::parse_endpoint(flags.listen));
  SLUICE_ASSIGN(listening, wire::listen_on(endpoint));
  ServedModel served{.name = flags.name.empty() ? file.name : flags.name,
                     .version = flags.version,
                     .file = file,
                     .batching = {flags.max_batch, Micros(flags.max_delay_us)},
                     .batch = flags.max_batch};
  log::info("{} from {} on {}", served.name, flags.model, to_string(endpoint));
  Gate gate;
  Serving serving(*model, gate, std::move(served), std::move(listening), flags.threads);
  serving.run();
  return {};
}

Result<nlohmann::json> inspected(const std::string& path, const std::string& inputs,
                                 [[maybe_unused]] int batch) {
  SLUICE_ASSIGN(list, wire::parse_json(inputs));
  std::vector<TensorSpec> specs;
  for (const nlohmann::json& item : list) {
    SLUICE_ASSIGN(one, wire::tensor_spec_from(item));
    specs.push_back(std::move(one));
  }
#if SLUICE_WITH_TORCH
  SLUICE_ASSIGN(found, inspect_torchscript(path, specs));
  if (batch > 0) {
    SLUICE_ASSIGN(graph, operators_of_torchscript(path, specs, batch));
    found["graph"] = wire::to_json(graph);
  }
  return found;
#else
  return Error{ErrorKind::kInvalid, path + ": this build has no TorchScript"};
#endif
}

int inspect(const std::string& path, const std::string& inputs, int batch) {
  const auto found = inspected(path, inputs, batch);
  const nlohmann::json said =
      found.ok() ? *found : nlohmann::json{{"error", found.error().message}};
  std::printf("%s\n", said.dump().c_str());
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
  serve_command->add_option("--max-batch", flags.max_batch, "inferences that run together at most")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  serve_command->add_option("--max-delay-us", flags.max_delay_us, "that a request waits for others")
      ->check(CLI::Range(0, 10'000'000))
      ->capture_default_str();
  serve_command->add_option("--threads", flags.threads)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();

  std::string inspected, inputs = "[]";
  CLI::App* inspect_command =
      app.add_subcommand("inspect", "prints as JSON what a TorchScript model takes and returns");
  inspect_command->add_option("--model", inspected)->required();
  inspect_command->add_option(
      "--inputs", inputs, "[{name, datatype, shape}…]: runs the model with zeros to see outputs");

  int batch = 0;
  inspect_command->add_option("--graph", batch, "its operators in a run of this batch; 0: not")
      ->check(CLI::Range(0, 1024))
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
  if (inspect_command->parsed()) return inspect(inspected, inputs, batch);
  return report(serve(flags));
}

}  // namespace
}  // namespace sluice::runtime

int main(int argc, char** argv) {
  return sluice::runtime::run(argc, argv);
}
