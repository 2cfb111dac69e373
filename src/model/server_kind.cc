#include "model/server_kind.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace sluice {
namespace {

// $(PORT) is the node's to fill in, as in a Pod's manifest. A command that is no path lies in the
// working folder.
Birth birth_of_program(const ModelSpec& model, const Batching& /*batching*/) {
  const ProgramSpec& p = model.program;
  ExecOfProgram birth{.image = p.image,
                      .command = p.command,
                      .port = p.port,
                      .imports = p.imports,
                      .ready_path = p.readiness,
                      .ready_within = p.start_timeout,
                      .drain_signal = p.drain_signal};
  for (const auto& [name, value] : p.env)
    if (value.secret.empty())
      birth.environment[name] = value.text;
    else
      birth.secrets[name] = value.secret;
  birth.command.insert(birth.command.end(), p.args.begin(), p.args.end());
  if (!birth.command[0].starts_with('/')) birth.command[0] = p.folder + "/" + birth.command[0];
  birth.folder = p.folder;
  if (p.port_env != "PORT") birth.environment[p.port_env] = "$(PORT)";
  return birth;
}

constexpr ServerKind kKinds[] = {
    {.name = "torchscript",
     .platform = "pytorch_torchscript",
     .computes_on = [](DeviceKind kind) { return kind == DeviceKind::kCpu; },
     .described = true,
     .birth = [](const ModelSpec& model, const Batching& batching) -> Birth {
       return ForkOfTemplate{model, batching};
     }},
    {.name = kProgram,
     .platform = "program",
     .computes_on = [](DeviceKind) { return true; },
     .described = false,
     .birth = birth_of_program},
};

}  // namespace

std::span<const ServerKind> server_kinds() {
  return kKinds;
}

const ServerKind* find_server_kind(std::string_view name) {
  const auto found = std::ranges::find(kKinds, name, &ServerKind::name);
  return found != std::end(kKinds) ? found : nullptr;
}

const ServerKind& kind_of(const ModelSpec& model) {
  const ServerKind* kind = find_server_kind(model.format);
  SLUICE_CHECK(kind != nullptr, model.format);
  return *kind;
}

std::string names_of_server_kinds() {
  std::string all;
  for (const ServerKind& k : kKinds)
    if (k.described) all += (all.empty() ? "" : ", ") + std::string(k.name);
  return all.find(',') == all.npos ? all : "one of " + all;
}

std::string device_problem(const FunctionSpec& spec) {
  for (const DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    if (!spec.runs_on(kind)) continue;
    if (!spec.is_inference() && kind != DeviceKind::kCpu)
      return "'" + spec.device + "': a training job runs on cpu";
    const ServerKind* server = find_server_kind(spec.model().format);
    if (spec.is_inference() && server != nullptr && !server->computes_on(kind))
      return "'" + spec.device +
             "': a model's file runs on cpu; a program (spec.server) may run on " +
             "cpu, cuda or any";
  }
  return "";
}

}  // namespace sluice
