// Function files of programs: what they say is what is read, and can be written and read again.
#include "control/spec/function_file.h"

#include <gmock/gmock.h>

#include "control/spec/function_text.h"
#include "control/spec/model_url.h"

namespace sluice::control {
namespace {

using testing::HasSubstr;

// `spec`: its lines.
Result<std::vector<FunctionSpec>> read(const std::string& spec, const ModelCheck& check = {}) {
  return parse_functions(
      "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: f}\nspec:\n"
      "  slo: {latency: 100ms}\n" +
          spec,
      {.file = "f.yaml", .folder = "/home/ada", .home = "/home/ada"}, check);
}

// Returns the one function, if it can also be written and read again.
FunctionSpec function(const std::string& spec) {
  const auto specs = read(spec);
  EXPECT_TRUE(specs.ok()) << specs.error().message;
  if (!specs.ok()) return {};
  const std::string text = to_yaml(specs->front());
  const auto again = parse_functions(text, {});
  EXPECT_TRUE(again.ok()) << again.error().message << "\n" << text;
  if (again.ok()) {
    EXPECT_EQ(again->front(), specs->front()) << text;
  }
  return specs->front();
}

std::string fault(const std::string& spec, const ModelCheck& check = {}) {
  const auto specs = read(spec, check);
  EXPECT_FALSE(specs.ok()) << spec;
  return specs.ok() ? "" : specs.error().message;
}

const std::string kServer = "  server:\n    command: [/bin/server]\n";

TEST(ProgramFile, AVariableIsATextOrASecret) {
  const FunctionSpec f =
      function(kServer + "    env: {A: b, N: 1, EMPTY: '', KEY: {file: api-key.v2}}\n");
  EXPECT_EQ(f.model().program.env,
            (std::map<std::string, EnvValue>{{"A", {.text = "b"}},
                                             {"EMPTY", {}},
                                             {"KEY", {.secret = "api-key.v2"}},
                                             {"N", {.text = "1"}}}));
}

TEST(ProgramFile, AnotherSecretIsADifferenceAndIsShownByItsName) {
  const FunctionSpec before = function(kServer + "    env: {KEY: text}\n");
  const FunctionSpec after = function(kServer + "    env: {KEY: {file: api-key}}\n");
  EXPECT_THAT(difference(before, after),
              testing::ElementsAre("server.env: KEY: text -> KEY: {file: api-key}"));
}

TEST(ProgramFile, ASecretThatCannotBeNamedIsRefused) {
  const std::pair<const char*, const char*> faults[] = {
      {"{file: /etc/shadow}",
       "f.yaml:8 spec.server.env.KEY.file: \"/etc/shadow\" is no name of a file in DATA/secrets"},
      {"{file: ../control.db}", "\"../control.db\" is no name of a file in DATA/secrets"},
      {"{file: ''}", "\"\" is no name of a file in DATA/secrets"},
      {"{}", "spec.server.env.KEY.file: is missing; it must be the name of a file"},
      {"{fle: api-key}", "f.yaml:8 spec.server.env.KEY.fle: unknown field, did you mean \"file\"?"},
      {"{file: [a]}", "spec.server.env.KEY.file: a list is not text"},
      {"[a]", "f.yaml:8 spec.server.env.KEY: must be a text, or {file: SECRET}"}};
  for (const auto& [value, said] : faults)
    EXPECT_THAT(fault(kServer + "    env: {KEY: " + value + "}\n"), HasSubstr(said)) << value;
  EXPECT_THAT(fault(kServer + "    env: {PORT: {file: port}}\n"),
              HasSubstr("secrets.PORT: is the node's to set"));
}

TEST(ProgramFile, AFaultOfTheContentIsAtItsField) {
  const auto with = [](const char* error) {
    return [error](ModelSpec&) -> Result<void> { return Error{ErrorKind::kInvalid, error}; };
  };
  const std::string spec = kServer + "    env: {KEY: {file: api-key}}\n";
  EXPECT_EQ(fault(spec, with("server.env.KEY.file: /d/secrets/api-key: no such file")),
            "f.yaml:8 spec.server.env.KEY.file: /d/secrets/api-key: no such file");
  EXPECT_EQ(fault(spec, with("/bin/server: no such file")),
            "f.yaml:7 spec.server.command: /bin/server: no such file");
}

TEST(ProgramFile, ItsMetricsAreAPathThatAScrapeCanAsk) {
  EXPECT_EQ(function(kServer + "    metrics: /metrics\n").model().program.metrics, "/metrics");
  for (const char* path : {"metrics", "/a b", "/metrics?all", "/metrics#x", "/\u00e9"})
    EXPECT_THAT(fault(kServer + "    metrics: \"" + path + "\"\n"),
                HasSubstr("f.yaml:8 spec.server.metrics: '" + std::string(path) +
                          "' is not a path such as /metrics"));
}

TEST(ProgramFile, ImportsAreForAScriptOfPython) {
  const std::string python = "  server:\n    command: [/usr/bin/python3, server.py]\n";
  const FunctionSpec f = function(python + "    imports: [torch, torchvision.models]\n");
  EXPECT_EQ(f.model().program.imports, (std::vector<std::string>{"torch", "torchvision.models"}));
  EXPECT_THAT(difference(function(python), f),
              testing::ElementsAre("server.imports: none -> torch torchvision.models"));
  const std::string shell = "  server:\n    command: [/bin/sh, server.py]\n";
  const std::pair<std::string, const char*> faults[] = {
      {shell + "    imports: [torch]\n",
       "f.yaml:8 spec.server.imports: '/bin/sh' is no interpreter of Python; a command such as "
       "[/usr/bin/python3, server.py] is allowed"},
      {python + "    imports: [1torch]\n",
       "f.yaml:8 spec.server.imports: '1torch' is no module's name"},
      {"  server:\n    command: [/usr/bin/python3]\n    args: [-m, server]\n    imports: [torch]\n",
       "f.yaml:9 spec.server.imports: the word behind '/usr/bin/python3' is '-m'"}};
  for (const auto& [spec, said] : faults) EXPECT_THAT(fault(spec), HasSubstr(said)) << spec;
  EXPECT_EQ(function("  server:\n    command: [/usr/bin/python3]\n    args: [server.py]\n"
                     "    imports: [torch]\n")
                .model()
                .program.args,
            std::vector<std::string>{"server.py"});
}

// In KServe's form; `more`: further lines of the container.
std::string contained(const std::string& more,
                      const std::string& command = "[/bin/server, --quiet]") {
  return "  predictor:\n    containers:\n    - command: " + command + "\n" + more;
}

TEST(ProgramFile, AContainerIsTheServerThatItRuns) {
  const FunctionSpec contains = function(contained(R"yaml(
      name: kserve-container
      args: ["--port=$(PORT)"]
      env:
      - {name: MODE, value: fast}
      - {name: EMPTY}
      ports: [{containerPort: 9000, name: http1, protocol: TCP}]
      readinessProbe: {httpGet: {path: /healthz, port: 9000}}
      resources: {limits: {memory: 512Mi}}
)yaml"));
  EXPECT_EQ(contains, function(R"yaml(
  server:
    command: [/bin/server, --quiet]
    args: ["--port=$(PORT)"]
    env: {MODE: fast, EMPTY: ""}
    port: 9000
    protocol: http
    readiness: /healthz
  memory: 512Mi
)yaml"));
  EXPECT_EQ(function(contained("", "[./server]")).model().path, "/home/ada/server");
}

TEST(ProgramFile, WhatAContainerHasBeyondAProgramIsRefusedWithWhatIsInItsPlace) {
  const std::string port = "      ports: [{containerPort: 9000}]\n";
  const std::pair<std::string, const char*> faults[] = {
      {"      image: ada/server:1\n",
       "f.yaml:9 spec.predictor.containers[0].image: 'ada/server:1': images run on Kubernetes "
       "alone"},
      {"      imports: [torch]\n", "containers[0].imports: unknown field"},
      {"      workingDir: /srv\n", "a program works in a copy of its files"},
      {"      env: [{name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}]\n",
       "f.yaml:9 spec.predictor.containers[0].env[0].valueFrom: Sluice has no objects to read it "
       "from. Put the value into a file in DATA/secrets"},
      {"      env: {MODE: fast}\n", "containers[0].env: must be a list of variables"},
      {"      env: [{name: N, value: 1}]\n", "env[0].value: 1 is not text; put it in quotes"},
      {"      env: [{value: x}]\n", "env[0].name: is missing; it must be the variable's name"},
      {"      env: [{name: A}, {name: A}]\n", "env[1].name: \"A\" stands twice"},
      {"      env: [{name: PORT, value: x}]\n",
       "spec.predictor.containers[0]: program.environment.PORT: is the node's to set"},
      {"      ports: [{containerPort: 80}]\n", "\"80\" is not a whole number from 1024 to 65535"},
      {"      ports: [{containerPort: 9000}, {containerPort: 9001}]\n",
       "containers[0].ports: must be a list of one port"},
      {"      ports: [{containerPort: 9000, name: h2c}]\n", "a program is asked in HTTP/1.1"},
      {"      ports: [{containerPort: 9000, protocol: UDP}]\n", "\"UDP\": TCP is allowed"},
      {port + "      readinessProbe: {httpGet: {path: /, port: 8080}}\n",
       "f.yaml:10 spec.predictor.containers[0].readinessProbe.httpGet.port: 8080 is not the port "
       "that the program serves at, ports[0].containerPort: 9000"},
      {"      readinessProbe: {httpGet: {path: /, port: 8080}}\n", "containerPort; none is stated"},
      {"      readinessProbe: {tcpSocket: {port: 9000}}\n", "readinessProbe.tcpSocket: unknown"},
      {"      readinessProbe: {httpGet: {path: healthz}}\n", "'healthz' is not a path"},
      {"      resources: {limits: {cpu: 1}}\n",
       "resources.limits.cpu: the policy gives a program its share of a device"},
      {"      resources: {limits: {nvidia.com/gpu: 1}}\n",
       "resources.limits.nvidia.com/gpu: state `device: cuda` in spec"},
      {"      resources: {requests: {cpu: 1}}\n", "resources.requests: the policy gives"},
      {"      resources: {limits: {memory: 1Gi}}\n  memory: 2Gi\n",
       "limits.memory: stands beside spec.memory; one of the two is allowed"},
      {"      comand: [x]\n", "containers[0].comand: unknown field, did you mean \"command\"?"},
      {"      livenessProbe: {}\n", "containers[0].livenessProbe: unknown field"},
      {"    - command: [/bin/other]\n",
       "spec.predictor.containers: must be a list of one container"},
      {"    minReplicas: 2\n", "spec.predictor.minReplicas: stands in spec here"},
      {"  server: {command: [/bin/sh]}\n", "stands beside predictor; one of the two is allowed"},
      {"  model: {path: m.pt}\n", "stands beside model; one of the two is allowed"}};
  for (const auto& [lines, said] : faults)
    EXPECT_THAT(fault(contained(lines)), HasSubstr(said)) << lines;
  EXPECT_THAT(fault(contained("", "[server]")),
              HasSubstr("spec.predictor.containers[0].command: 'server' is not an absolute path"));
  EXPECT_EQ(fault("  predictor: {}\n"),
            "f.yaml:6 spec.predictor.containers: is missing; it must be a list of one container: "
            "containers: [{command: [/bin/server]}]");
  // KServe's other form: one fault, which names what is to be written.
  EXPECT_EQ(fault("  predictor:\n    model:\n      modelFormat: {name: pytorch}\n"
                  "      storageUri: s3://models/resnet\n"),
            "f.yaml:7 spec.predictor.model: a model's file stands in spec, in place of predictor: "
            "model: {path: model.pt}");
  EXPECT_THAT(fault("  predictor: {containers: [{args: [x]}]}\n"),
              HasSubstr("spec.predictor.containers[0].command: is missing: the program's words"));
}

// ---- variants --------------------------------------------------------------------------------

const std::string kVariants =
    "  variants:\n"
    "    - {deviceType: big, quantization: fp32, path: big.pt}\n"
    "    - {deviceType: little, quantization: int8, batch: 4, path: little.pt}\n";

// Every file is a model, of those inputs.
Result<void> is_model(ModelSpec& model) {
  model.inputs = {{"x", "FP32", {-1, 3}}};
  model.outputs = {{"y", "FP32", {-1, 3}}};
  return {};
}

TEST(Variants, AFunctionHasAFileForEachTypeAndItsModelForTheOthers) {
  const FunctionSpec f = function("  model: {path: other.pt}\n" + kVariants);
  EXPECT_EQ(f.model_on({"big"}).path, "/home/ada/big.pt");
  EXPECT_EQ(f.model_on({"little"}).path, "/home/ada/little.pt");
  EXPECT_EQ(f.model_on({"cpu/500m"}).path, "/home/ada/other.pt");
  EXPECT_EQ(f.variant_on({"little"})->quantization, "int8");
  EXPECT_EQ(f.model().path, "/home/ada/other.pt");
  const auto checked = read("  model: {path: other.pt}\n" + kVariants, is_model);
  ASSERT_TRUE(checked.ok()) << checked.error().message;
  EXPECT_EQ(checked->front().model().path, "/home/ada/other.pt") << "a check changes nothing of it";
  FunctionSpec many = f;
  many.inference().batching.max_size = 8;
  EXPECT_EQ(most_at_once(many, {"little"}), 4);
  EXPECT_EQ(most_at_once(many, {"big"}), 8);
}

TEST(Variants, WithoutAModelOtherTypesAreNotUsed) {
  const FunctionSpec f = function(kVariants);
  EXPECT_TRUE(f.may_use(DeviceType{"big"}));
  EXPECT_FALSE(f.may_use(DeviceType{"cpu/500m"}));
  EXPECT_EQ(f.model().path, "/home/ada/big.pt");
}

TEST(Variants, QuantizationAndBatchChooseAmongThem) {
  const FunctionSpec f = function("  quantization: int8\n" + kVariants);
  EXPECT_FALSE(f.may_use(DeviceType{"big"}));
  EXPECT_TRUE(f.may_use(DeviceType{"little"}));
  EXPECT_TRUE(function("  batch: 4\n" + kVariants).may_use(DeviceType{"little"}));
  EXPECT_THAT(fault("  quantization: int4\n" + kVariants),
              HasSubstr("spec.variants: none of them has the function's quantization and batch"));
  EXPECT_THAT(fault("  model: {path: m.pt}\n  quantization: int8\n"),
              HasSubstr("spec.quantization: chooses among `variants`, and there are none"));
}

TEST(Variants, FaultsNameTheirField) {
  const std::pair<std::string, const char*> faults[] = {
      {"  variants: []\n", "spec.variants: must be a list of {deviceType"},
      {"  variants: [{path: a.pt}]\n", "spec.variants[0].deviceType: is missing"},
      {"  variants: [{deviceType: big}]\n", "spec.variants[0].path: is missing"},
      {"  variants: [{deviceType: big, path: a.pt, batch: 0}]\n",
       "spec.variants[0].batch: \"0\" is not a whole number"},
      {"  variants: [{deviceType: big, path: 's3://b/a.pt'}]\n",
       "file://, https:// and http:// are served"},
      {kVariants + "    - {deviceType: big, path: more.pt}\n",
       "spec.variants[2].deviceType: 'big' has another variant"},
      {kServer + kVariants, "spec.variants: are of a model's file"}};
  for (const auto& [text, said] : faults) EXPECT_THAT(fault(text), HasSubstr(said)) << text;
}

TEST(Variants, OneThatCannotBeServedIsKeptWithItsFault) {
  const auto specs = read(kVariants, [](ModelSpec& model) -> Result<void> {
    if (model.path.ends_with("big.pt")) return Error{ErrorKind::kInvalid, "big.pt: is no archive"};
    return is_model(model);
  });
  ASSERT_TRUE(specs.ok()) << specs.error().message;
  EXPECT_FALSE(specs->front().may_use(DeviceType{"big"}));
  EXPECT_TRUE(specs->front().may_use(DeviceType{"little"}));
  EXPECT_EQ(specs->front().model().path, "/home/ada/little.pt");
  EXPECT_THAT(fault(kVariants,
                    [](ModelSpec&) -> Result<void> {
                      return Error{ErrorKind::kInvalid, "gone"};
                    }),
              HasSubstr("spec.variants: none can be served: gone"));
}

TEST(Variants, AnotherSignatureIsRefused) {
  EXPECT_THAT(fault(kVariants,
                    [](ModelSpec& model) {
                      Result<void> taken = is_model(model);
                      if (model.path.ends_with("little.pt")) model.inputs[0].shape = {-1, 4};
                      return taken;
                    }),
              HasSubstr("f.yaml:8 spec.variants[1].path: /home/ada/little.pt: has other inputs or "
                        "outputs than /home/ada/big.pt"));
}

// ---- models by URI -----------------------------------------------------------------------------

const std::string kSum(64, 'a');

TEST(ModelUri, AUrlStandsWithItsChecksum) {
  const std::string uri = "  model: {storageUri: 'https://host:8443/m/resnet50.pt?v=2'";
  const FunctionSpec f = function(uri + ", sha256: " + kSum + "}\n");
  EXPECT_EQ(f.model().path, "https://host:8443/m/resnet50.pt?v=2");
  EXPECT_EQ(f.model().sha256, kSum);
  EXPECT_EQ(function("  variants: [{deviceType: big, storageUri: 'http://h/a.pt', sha256: " + kSum +
                     "}]\n")
                .model_on({"big"})
                .sha256,
            kSum);
  EXPECT_THAT(fault(uri + "}\n"),
              HasSubstr("f.yaml:6 spec.model.sha256: is missing: a model that is fetched has the "
                        "SHA-256 of its file here, as sha256sum prints it"));
}

TEST(ModelUri, WhatCannotBeFetchedIsRefused) {
  const std::pair<std::string, const char*> faults[] = {
      {"storageUri: 's3://b/a.pt'", "file://, https:// and http:// are served"},
      {"storageUri: 'https://h/a.pt', sha256: abc", "\"abc\" is no SHA-256: 64 hexadecimal"},
      {"storageUri: 'https:///a.pt', sha256: " + kSum, "names no host"},
      {"storageUri: 'https://h', sha256: " + kSum, "names no file"},
      {"storageUri: 'https://h:0/a.pt', sha256: " + kSum, "has no port from 1 to 65535"},
      {"storageUri: 'https://h:x/a.pt', sha256: " + kSum, "has no port from 1 to 65535"},
      {"storageUri: 'https://ada:pw@h/a.pt', sha256: " + kSum, "has a user or a password"},
      {"storageUri: 'https://h/a b.pt', sha256: " + kSum, "has spaces"},
      {"storageUri: 'https://h/a.pt#b', sha256: " + kSum, "names a part of a file"},
      {"path: /m.pt, sha256: " + kSum, "spec.model.sha256: is of a model that is fetched"},
      {"path: /m.pt, storageUri: 'file:///m.pt'", "spec.model.path: stands beside storageUri"}};
  for (const auto& [model, said] : faults)
    EXPECT_THAT(fault("  model: {" + model + "}\n"), HasSubstr(said)) << model;
  EXPECT_EQ(function("  model: {path: 'file:///m.pt'}\n").model().path, "/m.pt");
}

TEST(ModelUri, ItsDescriptionLiesBesideIt) {
  EXPECT_EQ(sidecar_url("https://h/a/m.pt"), "https://h/a/m.json");
  EXPECT_EQ(sidecar_url("https://h.b/a/m?v=1.2"), "https://h.b/a/m.json?v=1.2");
  EXPECT_EQ(parse_model_url("http://[::1]:80/m.pt")->host, "::1");
  EXPECT_EQ(parse_model_url("https://h/m.pt")->port, 443);
}

TEST(ModelUri, WhileAServerIsAwayTheFileIsNotWrong) {
  const ModelCheck away = [](ModelSpec&) -> Result<void> {
    return Error{ErrorKind::kTimeout, "http://h/a.pt: cannot be fetched"};
  };
  const std::string model = "  model: {storageUri: 'http://h/a.pt', sha256: " + kSum + "}\n";
  EXPECT_EQ(read(model, away).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(read(model, away).error().message,
            "f.yaml:6 spec.model.storageUri: http://h/a.pt: cannot be fetched");
  EXPECT_EQ(read(model + "  minReplicas: -1\n", away).error().kind, ErrorKind::kInvalid);
}

// A document for a cluster.
Result<std::vector<FunctionSpec>> for_cluster(const std::string& kind, const std::string& spec) {
  return parse_functions("{apiVersion: sluice.dev/v1alpha1, kind: " + kind +
                             ", metadata: {name: f}, spec: {" + spec + "}}",
                         {.folder = "/here", .home = "/home/ada", .for_cluster = true});
}

TEST(ModelUri, ForAClusterAPathIsOneOfItsImage) {
  for (const char* spec :
       {"model: {storageUri: 'file:///models/m.pt'}", "model: {path: /models/m.pt}",
        "server: {command: [/usr/bin/python3, /srv/a.py, --v=./x]}"})
    EXPECT_TRUE(for_cluster("InferenceFunction", spec).ok()) << spec;
  for (const char* spec :
       {"model: {path: m.pt}", "model: {path: ~/m.pt}", "model: {storageUri: 'file://m.pt'}",
        "variants: [{deviceType: big, path: ./m.pt}]", "server: {command: [./a]}",
        "server: {command: [/bin/a], args: [~/x]}", "server: {command: [a], files: [a]}",
        "server: {command: [/bin/a], volumes: [data]}"}) {
    const auto read = for_cluster("InferenceFunction", spec);
    ASSERT_FALSE(read.ok()) << spec;
    EXPECT_THAT(read.error().message,
                HasSubstr("is on your machine, which a cluster does not reach"))
        << spec;
  }
  for (const char* spec :
       {"model: {path: m.pt}, dataset: /d, length: 1",
        "model: {path: /m.pt}, dataset: ~/d, length: 1", "command: [./train], length: 1"})
    EXPECT_THAT(for_cluster("TrainingFunction", spec).error().message,
                HasSubstr("which a cluster does not reach"))
        << spec;
}

TEST(ProgramFile, ForAClusterAProgramIsInAnImage) {
  for (const char* spec :
       {"server: {image: 'ada/server:1', command: [/bin/a]}",
        "predictor: {containers: [{image: 'ada/server:1', command: [/bin/a]}]}"}) {
    const auto read = for_cluster("InferenceFunction", spec);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ((*read)[0].model().program.image, "ada/server:1");
  }
  for (const char* field : {"files: [/srv/a]", "volumes: [/srv]", "imports: [json]"}) {
    const auto read =
        for_cluster("InferenceFunction",
                    "server: {command: [/usr/bin/python3, /srv/a.py], " + std::string(field) + "}");
    ASSERT_FALSE(read.ok()) << field;
    EXPECT_THAT(read.error().message, HasSubstr("name it in server.image")) << field;
  }
}

TEST(ModelUri, TheImagesFolderOfModelsMayBeAnotherHere) {
  const auto model_at = [](const std::string& models, const char* path) {
    const auto read = parse_functions(
        std::string("{apiVersion: sluice.dev/v1alpha1, kind: InferenceFunction, metadata: {name: "
                    "f}, spec: {model: {storageUri: '") +
            path + "'}}}",
        {.folder = "/here", .home = "/home/ada", .models = models});
    return read->front().model().path;
  };
  EXPECT_EQ(model_at("/cache", "file:///models/a/m.pt"), "/cache/a/m.pt");
  EXPECT_EQ(model_at("", "file:///models/m.pt"), "/models/m.pt");
  EXPECT_EQ(model_at("/cache", "file:///models2/m.pt"), "/models2/m.pt");
}

// ---- SMIF's words ----------------------------------------------------------------------------

TEST(GpuParts, CoresAreAWidthOfTheSlice) {
  const FunctionSpec f = function(kServer +
                                  "  device: cuda\n  gpuCores: 50%\n  gpuMemory: 2Gi\n"
                                  "  mps: 'on'\n  gpuCount: 1\n");
  EXPECT_EQ(f.slice->sm, Share{500});
  EXPECT_EQ(f.memory_on(DeviceKind::kCuda), Bytes{2} << 30);
  EXPECT_EQ(f.memory_on(DeviceKind::kCpu), 0);
  EXPECT_FALSE(f.may_use(Device{.kind = DeviceKind::kCuda, .mps = false}));
  EXPECT_TRUE(f.may_use(Device{.kind = DeviceKind::kCuda, .mps = true}));
}

TEST(GpuParts, WhatIsNotServedIsRefused) {
  const std::pair<const char*, const char*> faults[] = {
      {"  gpuCores: 50%\n", "spec.gpuCores: is of a GPU, and the function runs on cpu"},
      {"  device: cuda\n  gpuCores: 50%\n  slice: {sm: 50%}\n",
       "spec.gpuCores: stands beside slice"},
      {"  device: cuda\n  gpuCount: 2\n", "spec.gpuCount: 2: an instance has one GPU"},
      {"  mps: maybe\n", "spec.mps: 'maybe' is none of on or off"},
      {"  initialScale: 3\n  maxReplicas: 2\n", "spec.initialScale: 3 is above maxReplicas 2"},
      {"  slo: {latency: 1s, rate: -1}\n", "spec.slo"}};
  for (const auto& [text, said] : faults)
    EXPECT_THAT(fault(kServer + text), HasSubstr(said)) << text;
}

}  // namespace
}  // namespace sluice::control
