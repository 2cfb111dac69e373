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
  ExecOfProgram birth{
      .command = p.command, .environment = p.env, .port = p.port, .ready_path = p.readiness};
  birth.command.insert(birth.command.end(), p.args.begin(), p.args.end());
  if (!birth.command[0].starts_with('/')) birth.command[0] = p.folder + "/" + birth.command[0];
  birth.folder = p.folder;
  if (p.port_env != "PORT") birth.environment[p.port_env] = "$(PORT)";
  return birth;
}

constexpr ServerKind kKinds[] = {
    {.name = "torchscript",
     .platform = "pytorch_torchscript",
     .computes_on = [](const Device& d) { return d.kind == DeviceKind::kCpu; },
     .described = true,
     .birth = [](const ModelSpec& model, const Batching& batching) -> Birth {
       return ForkOfTemplate{model, batching};
     }},
    {.name = kProgram,
     .platform = "program",
     .computes_on = [](const Device& d) { return d.kind == DeviceKind::kCpu; },
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

bool serves(const Device& device) {
  return std::ranges::any_of(kKinds, [&](const ServerKind& k) { return k.computes_on(device); });
}

}  // namespace sluice
