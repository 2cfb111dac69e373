#include "control/spec/function_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <span>

#include "base/words.h"
#include "control/spec/kserve_container.h"
#include "control/spec/model_fields.h"
#include "control/spec/yaml_documents.h"
#include "control/spec/yaml_fields.h"
#include "model/drain_signal.h"
#include "model/function_fields.h"
#include "model/python_command.h"
#include "model/quantity.h"
#include "model/server_kind.h"
#include "policy/bundle.h"
#include "wire/json/birth_json.h"
#include "wire/secret_file.h"

namespace sluice::control {
namespace {

bool is_label(const std::string& s) {
  if (s.empty() || s.size() > 63 || s.front() == '-' || s.back() == '-') return false;
  return std::ranges::all_of(
      s, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

// A function keeps the name that it has on another server: capitals, '_' and '.' are allowed.
bool is_name(const std::string& s) {
  const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  if (s.empty() || s.size() > 63 || !plain(s.front()) || !plain(s.back())) return false;
  return std::ranges::all_of(s,
                             [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

void read_name(Fields& f, const std::string& key, std::string& out) {
  f.text(key, out);
  if (out.empty()) return;
  if (const auto checked = check_name(out); !checked.ok()) f.complain(key, checked.error().message);
}

void read_label(Fields& f, const std::string& key, std::string& out) {
  f.text(key, out);
  if (!out.empty() && !is_label(out))
    f.complain(key, "\"" + out.substr(0, 60) +
                        "\" is no name: a-z, 0-9 and -, at most 63, not - at an end");
}

void read_word(Fields& f, const std::string& key, const FunctionField& field,
               const FunctionSpec& spec, std::string& out) {
  if (!f.text(key, out) || field.words.empty()) return;
  if (std::ranges::find(field.words, out) == field.words.end())
    f.complain(key, "'" + out + "' is none of " + allowed_text(field, spec));
}

// Reads a program's variables.
void read_variables(Fields& f, const std::string& key, std::map<std::string, EnvValue>& out,
                    Source& source, Problems& problems) {
  f.entries(key, "a mapping of names to texts or {file: SECRET}",
            [&](const std::string& name, const YAML::Node& value) {
              const std::string inner = key + "." + name;
              EnvValue& variable = out[name];
              if (value.IsScalar()) {
                variable.text = value.Scalar();
              } else if (value.IsMap()) {
                Fields secret(value, f.path_of(inner), source, problems);
                secret.need("file", "the name of a file in DATA/secrets");
                if (!secret.text("file", variable.secret)) return;
                const auto checked = wire::check_secret_name(variable.secret);
                if (checked.ok()) return;
                secret.complain("file", checked.error().message);
                variable.secret.clear();
              } else {
                f.complain(inner, "must be a text, or {file: SECRET}");
              }
            });
}

// Reads one of two words.
void read_choice(Fields& f, const std::string& key, const FunctionField& field, bool& out) {
  std::string word(out ? field.yes : field.no);
  f.text(key, word);
  if (word != field.no && word != field.yes)
    f.complain(key, "'" + word + "' is neither " + std::string(field.no) + " nor " +
                        std::string(field.yes));
  out = word == field.yes;
}

void read_switch(Fields& f, const std::string& key, const FunctionField& field, bool& out) {
  if (field.yes != "true") return read_choice(f, key, field, out);
  const YAML::Node value = f.take(key);
  if (value.IsDefined() && (!value.IsScalar() || !YAML::convert<bool>::decode(value, out)))
    f.complain(key, "must be true or false");
}

void read_field(Fields& f, const FunctionField& field, FunctionSpec& spec, Source& source,
                Problems& problems) {
  const std::string key(key_of(field));
  if (!field.wanted.empty()) f.need(key, field.wanted);
  const FunctionField::Slot slot = field.slot(spec);
  if (auto* const* out = std::get_if<int*>(&slot))
    f.integer(key, **out, static_cast<int>(field.least), static_cast<int>(field.most));
  else if (auto* const* out = std::get_if<double*>(&slot))
    f.number(key, **out, field.least, field.most);
  else if (auto* const* out = std::get_if<Nanos*>(&slot))
    f.duration(key, **out, from_seconds(field.least), from_seconds(field.most));
  else if (auto* const* out = std::get_if<bool*>(&slot))
    read_switch(f, key, field, **out);
  else if (auto* const* out = std::get_if<Bytes*>(&slot))
    f.bytes(key, **out);
  else if (auto* const* out = std::get_if<std::string*>(&slot))
    read_word(f, key, field, spec, **out);
  else if (auto* const* out = std::get_if<std::vector<std::string>*>(&slot))
    f.words(key, **out);
  else
    read_variables(f, key, *std::get<std::map<std::string, EnvValue>*>(slot), source, problems);
}

// Fields of one section stand together in the table.
void read_fields(Fields& f, std::span<const FunctionField> fields, FunctionSpec& spec,
                 Source& source, Problems& problems) {
  while (!fields.empty()) {
    const std::string_view name = section_of(fields[0]);
    const auto other = std::ranges::find_if(
        fields, [&](const FunctionField& field) { return section_of(field) != name; });
    const auto of_section = fields.first(static_cast<size_t>(other - fields.begin()));
    const auto read = [&](Fields& inner) {
      for (const FunctionField& field : of_section)
        read_field(inner, field, spec, source, problems);
    };
    if (name.empty())
      read(f);
    else
      section(f, std::string(name), source, problems, read);
    fields = fields.subspan(of_section.size());
  }
}

// Returns whether settings agree once these override them; each is checked by itself elsewhere.
Result<void> together(const policy::Settings& all, const policy::SettingTexts& texts) {
  const auto settings = all.with(texts);
  return settings.ok() ? settings->check() : Result<void>();
}

// A name that no entry of the table has is a problem.
void check_listed(Fields& f, const std::string& key, const std::string& name, const auto& table) {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  if (std::ranges::find(names, name) == names.end())
    f.complain(key, "\"" + name + "\" is not known" + did_you_mean(name, names) + " Allowed are " +
                        listed(names, names.size()));
}

// Reads a bundle's name, or {name, settings}. The settings of a job are those of its plan, which is
// read already.
void read_policy(Fields& f, FunctionSpec& s, Source& source, Problems& problems) {
  if (!f.is_mapping("policy")) {
    if (f.text("policy", s.policy)) check_listed(f, "policy", s.policy, policy::bundles());
    return;
  }
  section(f, "policy", source, problems, [&](Fields& p) {
    p.need("name", "a policy's name");
    if (p.text("name", s.policy)) check_listed(p, "name", s.policy, policy::bundles());
    p.texts("settings", s.policy_settings);
    const policy::Bundle* bundle = policy::find_bundle(s.policy);
    if (bundle == nullptr) return;
    const policy::Plan* plan = s.is_inference() ? nullptr : &policy::plan_of(s, "", *bundle);
    const policy::Settings& its = plan == nullptr ? bundle->settings : plan->settings;
    const std::string under =
        ": under " + (plan == nullptr ? s.policy : "plan " + std::string(plan->name)) + ", ";
    for (const auto& [name, text] : s.policy_settings)
      if (const auto set = its.with({{name, text}}); !set.ok())
        problems.push_back(source.at(p.path_of("settings." + name)) + under + set.error().message);
    if (const auto agree = together(its, s.policy_settings); !agree.ok())
      problems.push_back(source.at(p.path_of("settings")) + under + agree.error().message);
  });
}

// Words that begin with "./" or "~/" are paths.
void make_absolute(Fields& f, const std::string& key, std::vector<std::string>& words,
                   const FileContext& context) {
  for (std::string& word : words) {
    if (!word.starts_with("./") && !word.starts_with("~/")) continue;
    check_reachable(f, key, word, context);
    word = absolute(word, context);
  }
}

// Images are of a cluster; what is copied or linked, of one machine.
void check_place_of_program(Fields& f, const ProgramSpec& p, const FileContext& context) {
  if (!p.image.empty() && !context.for_cluster)
    f.complain("server.image", "'" + p.image +
                                   "': images run on Kubernetes alone; here a program is one of "
                                   "this machine, which server.command names");
  if (!context.for_cluster) return;
  for (const auto& [key, there] : {std::pair{"server.files", !p.files.empty()},
                                   std::pair{"server.imports", !p.imports.empty()},
                                   std::pair{"server.volumes", !p.volumes.empty()}})
    if (there)
      f.complain(key,
                 "a Pod has its image alone: build an image that has what the program needs, and "
                 "name it in server.image");
}

// Of a server that is a program; its fields are read already. What its start will be is checked as
// a node checks it.
void check_program(Fields& f, InferenceSpec& s, const FileContext& context) {
  ModelSpec& model = s.model;
  ProgramSpec& p = model.program;
  if (p.command.empty()) return f.complain("server.command", "is missing: the program's words");
  check_place_of_program(f, p, context);
  make_absolute(f, "server.command", p.command, context);
  make_absolute(f, "server.args", p.args, context);
  for (std::string& path : p.files) {
    check_reachable(f, "server.files", path, context);
    const bool bare = path.ends_with('/') || path == ".";
    path = absolute(path, context);
    if (bare && !path.ends_with('/')) path += '/';
  }
  for (std::string& path : p.volumes) {
    check_reachable(f, "server.volumes", path, context);
    path = absolute(path, context);
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    if (path.size() < 2 || path.front() != '/')
      f.complain("server.volumes", "'" + path + "' is no folder's path");
  }
  model.format = kProgram;
  model.path = p.command[0];
  if (!p.command[0].starts_with('/') && p.files.empty())
    f.complain("server.command", "'" + p.command[0] +
                                     "' is not an absolute path, none that begins with ./ or ~/, "
                                     "and none of server.files");
  std::vector<std::string> words = p.command;
  words.insert(words.end(), p.args.begin(), p.args.end());
  if (const std::string why = imports_problem(words, p.imports); !why.empty())
    return f.complain("server.imports", why);
  ModelSpec started = model;
  started.program.folder = "/";
  if (signal_named(p.drain_signal) == 0) started.program.drain_signal = "SIGTERM";  // was named
  const Birth birth = kind_of(started).birth(started, s.batching);
  const auto taken = wire::program_from(wire::to_json(birth)["program"]);
  if (!taken.ok()) f.complain("server", taken.error().message);
  // A scrape takes a path as it stands, so a query would not be one.
  if (!p.metrics.empty() &&
      (!wire::is_request_path(p.metrics) || p.metrics.find_first_of("?#") != p.metrics.npos))
    f.complain("server.metrics",
               "'" + p.metrics +
                   "' is not a path such as /metrics: it begins with '/', in ASCII without "
                   "spaces, '?' and '#'");
}

void read_inference(Fields& f, FunctionSpec& spec, const FileContext& context, Source& source,
                    Problems& problems) {
  InferenceSpec& s = spec.inference();
  const bool in_kserves_form = f.has("predictor");
  const bool is_program = f.has("server") || in_kserves_form;
  for (const char* other : {"model", "predictor"})
    if (f.has("server") && f.has(other))
      f.complain("server", "stands beside " + std::string(other) + "; one of the two is allowed");
  if (f.has("model") && in_kserves_form)
    f.complain("predictor", "stands beside model; one of the two is allowed");
  if (f.has("variants") && is_program)
    f.complain("variants", "are of a model's file, and the function is a program");
  if (!is_program && !f.has("variants"))
    f.need("model", "the model's path: model: {path: …}; or server: {command: …}");
  read_model(f, s, context, source, problems);
  read_fields(f, inference_fields(), spec, source, problems);
  read_variants(f, s, context, source, problems);
  const size_t before = problems.size();
  if (in_kserves_form) read_predictor(f, spec, source, problems);
  if (is_program && problems.size() == before) check_program(f, s, context);
  if (s.max_replicas != 0 && s.max_replicas < s.min_replicas)
    f.complain("maxReplicas", std::to_string(s.max_replicas) + " is below minReplicas " +
                                  std::to_string(s.min_replicas));
  if (s.max_replicas != 0 && s.max_replicas < s.initial_scale)
    f.complain("initialScale", std::to_string(s.initial_scale) + " is above maxReplicas " +
                                   std::to_string(s.max_replicas));
  if (s.timeout < s.slo.latency)
    f.complain("timeout", format_duration(s.timeout) + " is below slo.latency, " +
                              format_duration(s.slo.latency) +
                              ": no request would last until its objective");
}

void read_training(Fields& f, FunctionSpec& spec, const FileContext& context, Source& source,
                   Problems& problems) {
  TrainingSpec& s = spec.training();
  if (!f.has("command")) {
    f.need("model", "a TorchScript module with its loss: model: {path: …}, or a command");
    f.need("dataset", "the path of a folder of arrays NAME.npy");
  }
  section(f, "model", source, problems, [&](Fields& m) {
    m.need("path", "the module's file");
    if (m.text("path", s.model.path) && s.model.path.empty()) m.complain("path", "\"\" is no file");
    if (s.model.path.find("://") != s.model.path.npos && !s.model.path.starts_with("file://"))
      m.complain("path", "\"" + s.model.path + "\": a module that is trained is a file here");
    check_reachable(m, "path", s.model.path, context);
    s.model.path = absolute(s.model.path, context);
  });
  read_fields(f, training_fields(), spec, source, problems);
  if (!s.plan.empty()) check_listed(f, "plan", s.plan, policy::plans());
  make_absolute(f, "command", s.command, context);
  if (!s.command.empty() && s.command[0].front() != '/')
    f.complain("command", "'" + s.command[0] + "' is not an absolute path");
  if (s.elastic && s.command.empty()) f.complain("elastic", "is for a command: there is none");
  check_reachable(f, "dataset", s.dataset, context);
  s.dataset = absolute(s.dataset, context);
  if (s.max_workers != 0 && s.max_workers < s.min_workers)
    f.complain("mostDevices", std::to_string(s.max_workers) + " is below leastDevices " +
                                  std::to_string(s.min_workers));
  if (s.batch.most != 0 && s.batch.most < s.batch.least)
    f.complain("batchSize.most",
               std::to_string(s.batch.most) + " is below least " + std::to_string(s.batch.least));
}

// SMIF's words for a slice of a GPU.
void read_gpu_parts(Fields& f, FunctionSpec& s) {
  int count = 1;
  f.integer("gpuCount", count, 1, 1024);
  if (count > 1)
    f.complain("gpuCount", std::to_string(count) + ": an instance has one GPU, or a part of one");
  Share cores = kNone;
  f.share("gpuCores", cores);
  if (cores == kNone) return;
  if (f.has("slice"))
    f.complain("gpuCores",
               "stands beside slice, whose `sm` says the same; one of the two is allowed");
  else if (!s.runs_on(DeviceKind::kCuda))
    f.complain("gpuCores", "is of a GPU, and the function runs on cpu");
  else
    s.slice = Slice{cores, {kWhole, kWhole}, 0};
}

// Reads the fields of all kinds of functions.
void read_shared(Fields& f, FunctionSpec& s, Source& source, Problems& problems) {
  read_fields(f, shared_fields(), s, source, problems);
  read_policy(f, s, source, problems);
  if (s.is_inference()) read_gpu_parts(f, s);
  if (s.policy == "fixed")
    f.need("slice", "what policy fixed holds: slice: {quota: {request: 30%}}");
  section(f, "slice", source, problems, [&](Fields& slice) {
    Slice held{.sm = kWhole, .quota = {kWhole, kWhole}};
    slice.share("sm", held.sm);
    slice.bytes("memory", held.memory);
    section(slice, "quota", source, problems, [&](Fields& q) {
      q.share("request", held.quota.request);
      held.quota.limit = held.quota.request;
      q.share("limit", held.quota.limit);
      if (held.quota.limit < held.quota.request) q.complain("limit", "is below the request");
    });
    s.slice = held;
  });
}

// Returns what is wrong with a function's model or program, at the field that the error begins
// with.
std::string content_problem(const ModelSpec& model, const std::string& error,
                            const Source& source) {
  const bool by_uri = source.lines.contains("spec.model.storageUri");
  if (model.format != kProgram)
    return source.at(by_uri ? "spec.model.storageUri" : "spec.model.path") + ": " + error;
  if (!error.starts_with("server.")) return source.at("spec.server.command") + ": " + error;
  const size_t colon = std::min(error.find(": "), error.size());
  return source.at("spec." + error.substr(0, colon)) + error.substr(colon);
}

bool passes(const Error& error) {
  return error.kind == ErrorKind::kUnavailable || error.kind == ErrorKind::kTimeout;
}

// `passing`: the problems that may be gone later.
void read_document(const YAML::Node& node, const FileContext& context,
                   const ModelCheck& check_model, std::vector<FunctionSpec>& out,
                   Problems& problems, size_t& passing) {
  Source source{.file = context.file, .line = node.Mark().line + 1};
  if (!node.IsMap()) {
    problems.push_back(source.file + ":" + std::to_string(source.line) +
                       " wants a mapping with apiVersion, kind, metadata and spec");
    return;
  }
  FunctionSpec spec;
  {
    Fields f(node, "", source, problems);
    std::string version, kind;
    f.need("apiVersion", "sluice.dev/v1alpha1");
    if (f.text("apiVersion", version) && version != "sluice.dev/v1alpha1")
      f.complain("apiVersion", "\"" + version + "\" is not known: sluice.dev/v1alpha1 is");
    f.need("kind", "InferenceFunction or TrainingFunction");
    const bool told = f.text("kind", kind);
    if (kind == "TrainingFunction") spec.kind = TrainingSpec{};
    if (told && kind != "InferenceFunction" && kind != "TrainingFunction")
      f.complain("kind",
                 "\"" + kind + "\" is not known: InferenceFunction and TrainingFunction are");
    f.need("metadata", "metadata: {name: …}");
    f.need("spec", "the function's specification");
    section(f, "metadata", source, problems, [&](Fields& m) {
      m.need("name", "a name such as resnet50");
      read_name(m, "name", spec.name.name);
      read_label(m, "namespace", spec.name.space);
      m.take("labels");
      m.take("annotations");
    });
    section(f, "spec", source, problems, [&](Fields& s) {
      if (spec.is_inference())
        read_inference(s, spec, context, source, problems);
      else
        read_training(s, spec, context, source, problems);
      read_shared(s, spec, source, problems);
    });
  }
  // A module that is trained needs no description of its inputs: the data set has them.
  ModelSpec& model = spec.model();
  if (check_model)
    if (const std::string problem = device_problem(spec); !problem.empty())
      problems.push_back(source.at("spec.device") + ": " + problem);
  if (check_model && spec.is_inference() && !spec.inference().variants.empty())
    check_variants(spec.inference(), check_model, source, problems);
  else if (check_model && spec.is_inference() && !model.path.empty())
    if (const auto checked = check_model(model); !checked.ok()) {
      problems.push_back(content_problem(model, checked.error().message, source));
      passing += passes(checked.error());
    }
  if (spec.is_inference()) bound_batch(spec.inference(), source, problems);
  out.push_back(std::move(spec));
}

}  // namespace

Result<void> check_name(const std::string& name) {
  if (is_name(name)) return {};
  return Error{ErrorKind::kInvalid,
               "\"" + name.substr(0, 60) +
                   "\" is no name: letters, digits and - _ . between them, at most 63"};
}

Result<std::vector<FunctionSpec>> parse_functions(std::string_view text, const FileContext& context,
                                                  const ModelCheck& check_model) {
  SLUICE_ASSIGN(documents, yaml_documents(text, context.file));
  std::vector<FunctionSpec> out;
  Problems problems;
  size_t passing = 0;
  for (const YAML::Node& node : documents)
    if (!node.IsNull()) read_document(node, context, check_model, out, problems, passing);
  if (problems.empty() && out.empty())
    problems.push_back(context.file + ": there is no function in it");
  std::vector<std::string> names;
  for (const FunctionSpec& s : out) names.push_back(to_string(s.name));
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names);
      problems.empty() && twice != names.end())
    problems.push_back(context.file + ": " + *twice + " stands there twice");
  if (problems.empty()) return out;
  std::string all;
  for (const std::string& p : problems) all += (all.empty() ? "" : "\n") + p;
  return Error{passing == problems.size() ? ErrorKind::kUnavailable : ErrorKind::kInvalid, all};
}

std::string folder_of_models(const std::string& home) {
  std::error_code fault;
  return std::filesystem::is_directory("/models", fault) ? "" : home + "/.cache/sluice/models";
}

Result<policy::SettingTexts> parse_settings(std::string_view text, const std::string& file,
                                            const policy::Bundle& bundle) {
  SLUICE_ASSIGN(documents, yaml_documents(text, file));
  policy::SettingTexts out;
  std::string problems;
  const auto complain = [&](int line, const std::string& why) {
    problems += (problems.empty() ? "" : "\n") + file + ":" + std::to_string(line) + " " + why;
  };
  for (const YAML::Node& node : documents) {
    if (node.IsNull()) continue;
    if (!node.IsMap()) complain(node.Mark().line + 1, "wants a mapping of settings to values");
    for (const auto& entry : node.IsMap() ? node : YAML::Node(YAML::NodeType::Map)) {
      const int line = entry.first.Mark().line + 1;
      const auto name = entry.first.as<std::string>("");
      if (!entry.second.IsScalar())
        complain(line, name + ": must be one value");
      else if (!out.emplace(name, entry.second.Scalar()).second)
        complain(line, name + ": stands twice");
      else if (const auto set = bundle.settings.with({{name, out[name]}}); !set.ok())
        complain(line, set.error().message);
    }
  }
  if (const auto agree = together(bundle.settings, out); !agree.ok())
    complain(1, agree.error().message);
  if (!problems.empty()) return Error{ErrorKind::kInvalid, problems};
  return out;
}

}  // namespace sluice::control
