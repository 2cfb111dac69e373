#include "wire/json/birth_json.h"

#include <algorithm>

#include "model/drain_signal.h"
#include "model/python_command.h"
#include "wire/secret_file.h"

namespace sluice::wire {
namespace {

using nlohmann::json;

constexpr size_t kMostWords = 256;
constexpr int64_t kLongestStartMs = 3'600'000;
constexpr size_t kLongestWord = 32 * 1024;  // a quarter of what the kernel takes
constexpr int kLowestPort = 1024;           // lower ones are root's to bind
constexpr int kHighestPort = 65535;

bool fits(const std::string& word) {
  return word.size() <= kLongestWord && word.find('\0') == word.npos;
}

constexpr char kWord[] = "must be text of at most 32 KiB without a NUL";

void read_command(Fields& f, std::vector<std::string>& command) {
  for (const json& word : f.list("command")) {
    if (!word.is_string() || !fits(word.get<std::string>())) return f.fail("command", kWord);
    command.push_back(word);
  }
  if (command.empty() || command.size() > kMostWords)
    return f.fail("command", "has " + std::to_string(command.size()) + " words; 1 to " +
                                 std::to_string(kMostWords) + " are allowed");
  if (!command[0].starts_with('/'))
    f.fail("command", "'" + command[0] + "' is not an absolute path");
}

bool is_name(const std::string& text) {
  const auto allowed = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && (text[0] < '0' || text[0] > '9') && std::ranges::all_of(text, allowed);
}

// What the node sets by itself.
bool is_reserved(const std::string& name) {
  return name == "PORT" || name.starts_with("SLUICE_") || name.starts_with("LISTEN_");
}

// Reads an object of variables' names.
void read_variables(Fields& f, const std::string& key,
                    std::map<std::string, std::string>& variables) {
  const json* object = f.child(key);
  if (object == nullptr) return;
  if (!object->is_object()) return f.fail(key, "must be an object");
  for (const auto& [name, value] : object->items()) {
    const std::string where = key + "." + name;
    if (!is_name(name))
      return f.fail(where, "is not a name of letters, digits and '_', the first no digit");
    if (is_reserved(name))
      return f.fail(where, "is the node's to set, as are PORT, SLUICE_* and LISTEN_*");
    if (!value.is_string() || !fits(value.get<std::string>())) return f.fail(where, kWord);
    variables[name] = value;
  }
}

void read_environment(Fields& f, ExecOfProgram& p) {
  read_variables(f, "environment", p.environment);
  read_variables(f, "secrets", p.secrets);
  for (const auto& [name, file] : p.secrets) {
    if (const auto checked = check_secret_name(file); !checked.ok())
      return f.fail("secrets." + name, checked.error().message);
    if (p.environment.contains(name))
      return f.fail("secrets." + name, "stands in environment, too");
  }
}

void read_readiness(Fields& f, ExecOfProgram& p) {
  if (f.child("port") != nullptr) {
    p.port = static_cast<int>(f.integer("port", 0, 0, kHighestPort));
    if (*p.port != 0 && *p.port < kLowestPort)
      f.fail("port", std::to_string(*p.port) + ": 0 (any) and " + std::to_string(kLowestPort) +
                         " to " + std::to_string(kHighestPort) + " are allowed");
  }
  p.ready_path = f.text("ready_path");
  p.ready_within = Millis(f.integer("ready_within_ms", 0, 0, kLongestStartMs));
  p.serves = f.boolean("serves", true);
  p.drain_signal = f.text("drain_signal", "SIGTERM");
  if (signal_named(p.drain_signal) == 0)
    f.fail("drain_signal", "'" + p.drain_signal + "' is none that asks a program to leave");
  if (p.ready_path.empty() && !p.port)
    f.fail("ready_path", "is missing; a program without a port needs it");
  if (!p.ready_path.empty() && !is_request_path(p.ready_path))
    f.fail("ready_path",
           "'" + p.ready_path + "' is not a path that begins with '/', in ASCII without spaces");
}

// A template forks what serves at a port, under a user id of the template's.
void read_imports(Fields& f, ExecOfProgram& p) {
  if (f.child("imports") == nullptr) return;
  for (const json& name : f.list("imports")) {
    if (!name.is_string()) return f.fail("imports", "must be a list of names");
    p.imports.push_back(name);
  }
  if (const std::string why = imports_problem(p.command, p.imports); !why.empty())
    return f.fail("imports", why);
  if (!p.imports.empty() && (!p.port || !p.home.empty()))
    f.fail("imports", "is for a program that has a port and no home");
}

}  // namespace

bool is_request_path(const std::string& path) {
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  return path.starts_with('/') && std::ranges::all_of(path, printable);
}

json to_json(const ExecOfProgram& p) {
  json out = {{"command", p.command},
              {"environment", p.environment},
              {"ready_path", p.ready_path},
              {"serves", p.serves}};
  if (p.ready_within > Nanos(0)) out["ready_within_ms"] = p.ready_within / Millis(1);
  if (p.port) out["port"] = *p.port;
  if (p.drain_signal != "SIGTERM") out["drain_signal"] = p.drain_signal;
  if (!p.secrets.empty()) out["secrets"] = p.secrets;
  if (!p.imports.empty()) out["imports"] = p.imports;
  if (!p.home.empty()) out["home"] = p.home;
  if (!p.folder.empty()) out["folder"] = p.folder;
  return out;
}

Result<ExecOfProgram> program_from(const json& j) {
  Fields f(j, "program");
  ExecOfProgram p;
  read_command(f, p.command);
  read_environment(f, p);
  read_readiness(f, p);
  p.home = f.text("home");
  p.folder = f.text("folder");
  for (const auto& [field, path] : {std::pair("home", &p.home), {"folder", &p.folder}})
    if (!path->empty() && (*path)[0] != '/')
      f.fail(field, "'" + *path + "' is not an absolute path");
  read_imports(f, p);
  return f.finish(std::move(p));
}

json to_json(const Birth& birth) {
  if (const auto* program = std::get_if<ExecOfProgram>(&birth))
    return {{"program", to_json(*program)}};
  const auto& fork = std::get<ForkOfTemplate>(birth);
  return {{"model", to_json(fork.model)}, {"batching", to_json(fork.batching)}};
}

Birth birth_from(Fields& f) {
  if (f.child("program") == nullptr)
    return ForkOfTemplate{f.part<ModelSpec>("model", model_spec_from),
                          f.part<Batching>("batching", batching_from)};
  if (f.child("model") != nullptr)
    f.fail("program", "stands beside a model; one of the two is allowed");
  return f.part<ExecOfProgram>("program", program_from);
}

}  // namespace sluice::wire
