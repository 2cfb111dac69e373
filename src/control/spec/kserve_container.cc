#include "control/spec/kserve_container.h"

namespace sluice::control {
namespace {

constexpr int kLowestPort = 1024, kHighestPort = 65535;

// KServe has them in the predictor.
constexpr const char* kOfSpec[] = {"minReplicas",          "maxReplicas", "scaleTarget",
                                   "containerConcurrency", "timeout",     "batcher",
                                   "canaryTrafficPercent"};

void refuse(Fields& f, const std::string& key, std::string_view why) {
  if (!f.has(key)) return;
  f.take(key);
  f.complain(key, why);
}

// Reads a list of one mapping.
template <class Read>
void only_item(Fields& f, const std::string& key, std::string_view allowed, Source& source,
               Problems& problems, Read read) {
  const YAML::Node list = f.take(key);
  if (!list.IsDefined()) return;
  if (!list.IsSequence() || list.size() != 1)
    return f.complain(key, "must be a list of " + std::string(allowed));
  Fields item(list[0], f.path_of(key + "[0]"), source, problems);
  read(item);
}

void read_variables(Fields& container, std::map<std::string, EnvValue>& out, Source& source,
                    Problems& problems) {
  const YAML::Node list = container.take("env");
  if (!list.IsDefined()) return;
  if (!list.IsSequence())
    return container.complain("env", "must be a list of variables: [{name: MODE, value: fast}]");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = container.path_of("env[" + std::to_string(i) + "]");
    Fields variable(list[i], path, source, problems);
    std::string name;
    EnvValue value;
    variable.need("name", "the variable's name");
    variable.text("name", name);
    variable.text("value", value.text);
    refuse(variable, "valueFrom",
           "Sluice has no objects to read it from. Put the value into a file in DATA/secrets and "
           "name that in the form of Sluice, server: {env: {NAME: {file: SECRET}}}");
    if (!name.empty() && !out.emplace(name, value).second)
      variable.complain("name", "\"" + name + "\" stands twice");
  }
}

void read_port(Fields& container, int& out, Source& source, Problems& problems) {
  only_item(container, "ports", "one port, which serves HTTP", source, problems, [&](Fields& port) {
    std::string name, protocol = "TCP";
    port.need("containerPort", "a port from 1024 to 65535");
    port.integer("containerPort", out, kLowestPort, kHighestPort);
    port.text("name", name);
    port.text("protocol", protocol);
    if (name == "h2c") port.complain("name", "\"h2c\": a program is asked in HTTP/1.1");
    if (protocol != "TCP") port.complain("protocol", "\"" + protocol + "\": TCP is allowed");
  });
}

void read_probe(Fields& container, ProgramSpec& p, Source& source, Problems& problems) {
  section(container, "readinessProbe", source, problems, [&](Fields& probe) {
    probe.need("httpGet", "httpGet: {path: /healthz}");
    section(probe, "httpGet", source, problems, [&](Fields& get) {
      int port = p.port;
      get.need("path", "a path such as /healthz");
      get.text("path", p.readiness);
      get.integer("port", port, 1, kHighestPort);
      if (port != p.port)
        get.complain("port",
                     std::to_string(port) +
                         " is not the port that the program serves at, ports[0]."
                         "containerPort" +
                         (p.port == 0 ? "; none is stated" : ": " + std::to_string(p.port)));
    });
  });
}

void read_resources(Fields& container, Fields& spec, FunctionSpec& out, Source& source,
                    Problems& problems) {
  constexpr char kShare[] =
      "the policy gives a program its share of a device; slice: {quota: {request: 30%}} in spec "
      "states where it starts";
  section(container, "resources", source, problems, [&](Fields& resources) {
    refuse(resources, "requests", kShare);
    section(resources, "limits", source, problems, [&](Fields& limits) {
      if (limits.has("memory") && spec.has("memory"))
        limits.complain("memory", "stands beside spec.memory; one of the two is allowed");
      limits.bytes("memory", out.memory);
      refuse(limits, "cpu", kShare);
      refuse(limits, "nvidia.com/gpu",
             "state `device: cuda` in spec, and `slice` for a part of a GPU");
    });
  });
}

}  // namespace

void read_predictor(Fields& spec, FunctionSpec& out, Source& source, Problems& problems) {
  section(spec, "predictor", source, problems, [&](Fields& predictor) {
    for (const char* key : kOfSpec) refuse(predictor, key, "stands in spec here, not in predictor");
    const bool is_model = predictor.has("model");
    refuse(predictor, "model",
           "a model's file stands in spec, in place of predictor: model: {path: model.pt}");
    if (!is_model)
      predictor.need("containers",
                     "a list of one container: containers: [{command: [/bin/server]}]");
    only_item(predictor, "containers", "one container, for a function is one program", source,
              problems, [&](Fields& container) {
                ProgramSpec& p = out.inference().model.program;
                std::string name;
                source.server = "spec.predictor.containers[0]";
                p.http = true;
                container.text("name", name);  // Kubernetes wants one
                container.text("image", p.image);
                refuse(container, "workingDir",
                       "a program works in a copy of its files, which the form of Sluice states, "
                       "server: {files: […]}; without files it works in /");
                container.words("command", p.command);
                container.words("args", p.args);
                read_variables(container, p.env, source, problems);
                read_port(container, p.port, source, problems);
                read_probe(container, p, source, problems);
                read_resources(container, spec, out, source, problems);
              });
  });
}

}  // namespace sluice::control
