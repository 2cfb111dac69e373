// Impossible function files: one error that names the field, the value and the allowed range, the
// exit code for wrong input, and nothing half-deployed.
#include <filesystem>
#include <fstream>

#include "tests/support/archive.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

struct Fault {
  std::string lines;  // of the spec, from line 5 on
  std::string said;
};

std::string file_with(const std::string& lines, const std::string& model) {
  return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: f}\nspec:\n"
         "  model: {path: \"" +
         model + "\"}\n" + lines + "\n";
}

void expect_refused(const Platform& p, const std::string& file, const std::string& said) {
  const Ended e = p.cli({"apply", "-f", "-"}, file);
  EXPECT_EQ(e.code, 2) << file;
  EXPECT_THAT(e.err, HasSubstr(said)) << file;
  EXPECT_EQ(e.out, "") << file;
  EXPECT_EQ(p.get("/v1/functions"), json::array()) << file;
}

TEST(PlatformApply, AWrongFieldIsNamedWithItsValueAndWhatIsAllowed) {
  Platform p;
  const std::string model = p.model("");
  const std::vector<Fault> faults{
      // unknown, misspelt
      {"  minReplica: 2",
       "-:6 spec.minReplica: unknown field, did you mean \"minReplicas\"? Allowed here: "},
      {"  slo: {latncy: 80ms, latency: 80ms}",
       "-:6 spec.slo.latncy: unknown field, did you mean \"latency\"? Allowed here: latency, "},
      {"  gpus: 2", "-:6 spec.gpus: unknown field"},
      {"  minReplicas: 1\n  minReplicas: 2", "-:7 spec.minReplicas: stands twice"},
      // wrong types
      {"  slo: 80ms", "-:6 spec.slo: \"80ms\" stands where a mapping of fields must"},
      {"  minReplicas: two", "-:6 spec.minReplicas: \"two\" is not a whole number from 0 to 10000"},
      {"  minReplicas: 1.5", "\"1.5\" is not a whole number from 0 to 10000"},
      {"  minReplicas: [1]", "-:6 spec.minReplicas: a list is not a whole number"},
      {"  policy: yes", "-:6 spec.policy: yes is not text; put it in quotes"},
      {"  timeout: soon", "-:6 spec.timeout: "},
      {"  memory: much", "-:6 spec.memory: "},
      // out of range
      {"  minReplicas: -1", "\"-1\" is not a whole number from 0 to 10000"},
      {"  minReplicas: 3\n  maxReplicas: 2", "-:7 spec.maxReplicas: 2 is below minReplicas 3"},
      {"  canaryTrafficPercent: 130", "\"130\" is not a whole number from 0 to 100"},
      {"  batcher: {maxBatchSize: 0}", "\"0\" is not a whole number from 1 to 256"},
      {"  slo: {latency: 1ns}", "\"1ns\" is not a duration from 100us to 1h"},
      {"  slo: {latency: 80ms, percentile: 101}", "\"101\" is not a number from 1 to 100"},
      {"  slice: {quota: {request: 120%}}", "-:6 spec.slice.quota.request: "},
      {"  slice: {quota: {request: 50%, limit: 20%}}",
       "-:6 spec.slice.quota.limit: is below the request"},
      // impossible here
      {"  policy: has-gpus",
       "-:6 spec.policy: \"has-gpus\" is not known, did you mean \"has-gpu\"? Allowed are "
       "has-gpu, "},
      {"  policy: fixed",
       "-:5 spec.slice: is missing; it must be what policy fixed holds: slice: {quota: "},
      {"  slice: {sm: 33%}",
       "default/f: slice.sm: 33% is not a supported width; the devices here support multiples of "},
      {"  memory: 900Ti", "default/f: memory: 900Ti is more than any device has (at most "}};
  for (const Fault& f : faults) expect_refused(p, file_with(f.lines, model), f.said);

  const auto put = p.api(verb::put, "/v1/profiles",
                         {{"model", model},
                          {"function", "default/f"},
                          {"revision", 1},
                          {"points",
                           {{{"batch", 1},
                             {"sm", 1000},
                             {"quota", 1000},
                             {"latency_p50_us", 5000},
                             {"latency_p95_us", 6000},
                             {"throughput", 200.0}}}}});
  EXPECT_EQ(put, (json{{"points", 1}}));
  expect_refused(
      p, file_with("  slo: {latency: 4ms}", model),
      "default/f: slo.latency: 4ms is less than the 5ms in which a whole device here answers "
      "at best, as was measured");
}

TEST(PlatformApply, WhatIsNoFunctionFileIsSaidToBeNone) {
  Platform p;
  const std::string model = p.model("");
  const std::string head = "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n";
  expect_refused(p, "", "there is no function in it");
  expect_refused(p, "just words", "wants a mapping with apiVersion, kind, metadata and spec");
  expect_refused(p, "a: [1", "-:");
  expect_refused(p, "apiVersion: v1\nkind: Pod\nmetadata: {name: f}\nspec: {}\n",
                 "-:1 apiVersion: \"v1\" is not known: sluice.dev/v1alpha1 is");
  expect_refused(p, "apiVersion: sluice.dev/v1alpha1\nkind: Function\n",
                 "\"Function\" is not known: InferenceFunction and TrainingFunction are");
  expect_refused(p, head + "metadata: {name: Big_Name_}\nspec: {model: {path: x}}\n",
                 "-:3 metadata.name: \"Big_Name_\" is no name: letters, digits and - _ .");
  expect_refused(p, head + "metadata: {name: f}\nspec: {minReplicas: 1}\n",
                 "spec.model: is missing; it must be the model's path");
  expect_refused(p, head + "metadata: {name: f}\n", "spec: is missing");
  const std::string one = file_with("", model);
  expect_refused(p, one + "---\n" + one, "default/f stands there twice");
  // All problems at once; if one of two functions is wrong, neither is applied.
  const Ended both =
      p.cli({"apply", "-f", "-"}, file_with("  minReplica: 2\n  timeout: soon", model));
  EXPECT_THAT(both.err, HasSubstr("-:6 spec.minReplica"));
  EXPECT_THAT(both.err, HasSubstr("-:7 spec.timeout"));
  std::string other = file_with("  policy: fixed", model);
  other.replace(other.find("name: f"), 7, "name: g");
  expect_refused(p, one + "---\n" + other, "spec.slice: is missing");
}

TEST(PlatformApply, OfSeveralFilesNoneIsAppliedWhenOneIsWrong) {
  Platform p;
  const std::string folder = p.data + "/files";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/1.yaml") << file_with("", p.model(""));
  std::ofstream(folder + "/2.yaml") << file_with("  minReplica: 2", p.model(""));
  // A model and what describes it may lie beside the function files.
  std::ofstream(folder + "/m.pt") << "a model";
  std::ofstream(folder + "/m.json") << R"({"inputs": [], "outputs": []})";
  const Ended wrong = p.cli({"apply", "-f", folder});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr(folder + "/2.yaml:6 spec.minReplica: unknown field"));
  EXPECT_EQ(p.get("/v1/functions"), json::array());
  std::filesystem::remove(folder + "/2.yaml");
  EXPECT_EQ(p.cli({"apply", "-f", folder}).out, "default/f revision 1 created\n");
}

TEST(PlatformApply, AModelThatIsNoneIsNamed) {
  Platform p;
  const auto file = [&](const std::string& name, const std::string& text) {
    std::ofstream(p.data + "/" + name) << text;
    return p.data + "/" + name;
  };
  const std::string whole = control::archive_of("weights");
  const std::string missing = p.data + "/no-such.pt";
  expect_refused(p, file_with("", missing),
                 "-:5 spec.model.path: " + missing + ": no such file, or not readable");
  expect_refused(p, file_with("", p.data), "is a folder, and ");
  expect_refused(p, file_with("", file("text.pt", "I am no model")), "text.pt: is no TorchScript");
  expect_refused(p, file_with("", file("empty.pt", "")), "empty.pt: is no TorchScript");
  expect_refused(p, file_with("", file("half.pt", whole.substr(0, 10))),
                 "half.pt: is truncated (10 bytes, its directory is missing)");
  expect_refused(p, file_with("", file("state.pt", control::archive_of("", "data.pkl"))),
                 "state.pt: is no TorchScript model (an archive without constants.pkl");
  expect_refused(p, file_with("", file("alone.pt", whole)),
                 "alone.json: no such file, or not readable. Describe the model's inputs and "
                 "outputs in that file");
  const std::string odd = file("odd.pt", whole);
  for (const char* sidecar : {"{", "[]", "{\"inputs\": []}", "{\"inputs\": [{\"name\": 3}]}"}) {
    file("odd.json", sidecar);
    expect_refused(p, file_with("", odd), "-:5 spec.model.path: " + p.data + "/odd.json");
  }
}

TEST(PlatformApply, AMissingModelOfTheExamplesComesWithHowToMakeIt) {
  const Platform p;
  const std::string hint = "`tools/make_models` makes the models of the examples";
  const std::string examples = p.data + "/.cache/sluice/models/resnet50.pt";
  for (const std::string& model : {examples, p.data + "/resnet50.pt"}) {
    const Ended missing = p.cli({"apply", "-f", "-"}, file_with("", model));
    EXPECT_EQ(missing.code, 2);
    EXPECT_THAT(missing.err, HasSubstr(model + ": no such file, or not readable"));
    EXPECT_EQ(missing.err.find(hint) != std::string::npos, model == examples) << missing.err;
  }
}

// A file that names a model of an image runs here, too.
TEST(PlatformApply, WhereThereIsNoFolderOfModelsTheOneOfTheExamplesStandsForIt) {
  const Platform p;
  const std::string home = getenv("HOME");
  const std::string models =
      std::filesystem::is_directory("/models") ? "/models" : home + "/.cache/sluice/models";
  expect_refused(
      p, file_with("", "file:///models/no-such-model.pt"),
      "-:5 spec.model.path: " + models + "/no-such-model.pt: no such file, or not readable. ");
}

// The platform's settings are in a file, a function's in its own; wrong ones start nothing.
TEST(PlatformApply, SettingsOfAPolicyAreReadCheckedAndShown) {
  std::string file;
  Platform p({"--policy", "has-gpu"}, [&](const std::string& data) {
    file = data + "-settings.yaml";
    std::ofstream(file) << "alpha: 0.8\ncooldown: 5s\n";
    return false;
  });
  p.launch({"--settings", file});
  p.wait_until_serves();
  EXPECT_THAT(p.cli({"status"}).out, HasSubstr("has-gpu (alpha: 0.8, cooldown: 5s)"));
  const std::string shown = p.cli({"policies", "has-gpu"}).out;
  EXPECT_THAT(shown, ContainsRegex("SETTING +VALUE +IN-FORCE +ALLOWED"));
  EXPECT_THAT(shown, ContainsRegex("alpha +0.7 +0.8 "));
  EXPECT_THAT(shown, ContainsRegex("beta +0.3 +0.3 "));
  EXPECT_THAT(p.cli({"policies", "exclusive"}).out, Not(HasSubstr("IN-FORCE")));
  const std::string own = "  policy: {name: has-gpu, settings: {alpha: 0.5}}";
  EXPECT_EQ(p.cli({"apply", "-f", "-"}, file_with(own, p.model(""))).code, 0);
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("alpha: 0.5"));
  const Ended wrong =
      p.cli({"apply", "-f", "-"},
            file_with("  policy: {name: fixed, settings: {alpha: 0.5}}", p.model("")));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("-:6 spec.policy.settings.alpha: under fixed, alpha: this "
                                   "policy has no settings"));
  std::ofstream(file) << "alpha: 0.8\nalhpa: 1\n";
  const Ended refused = p.cli({"up", "--settings", file});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr(":2 alhpa is no setting of this policy; did you mean 'alpha'"));
  std::filesystem::remove(file);
}

// `hpa` is one file and one line of the bundles' table. Of two devices in use lanes would take the
// one with more free space, best fit takes the other.
TEST(PlatformApply, ABundlePlacesScalesAndRoutesByItsOwnRules) {
  Platform p;
  p.deploy({.name = "sixty", .request = 60});
  p.deploy({.name = "fifty", .request = 50});
  const std::string own =
      "  policy: {name: hpa, settings: {tolerance: 0.05}}\n  scaleTarget: 1\n"
      "  slice: {quota: {request: 40%}}";
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file_with(own, p.model(""))).code, 0);
  p.wait_until_settled("f", 1);
  EXPECT_EQ(p.instances("f")[0]["device"], p.instances("sixty")[0]["device"]);
  HeldRequest first(p), second(p);
  p.wait_until_settled("f", 2);  // at its next tick, within 15 s
  EXPECT_EQ(first.answer()["status"], 200);
  EXPECT_EQ(second.answer()["status"], 200);
  EXPECT_THAT(p.cli({"get", "decisions", "f"}).out,
              HasSubstr("2.0 requests at once; one instance takes 1.0."));
  std::ifstream file(p.data + "/run/routes.json");
  const json routes = json::parse(file);
  for (const json& f : routes["functions"])
    EXPECT_EQ(f["route"], f["name"] == "default/f" ? "least_work" : "weighted") << f;
}

// `f` runs under `window`, `other` under `planned`. The device could hold both.
TEST(PlatformApply, BundlesOfDifferentArbitersNeverShareADevice) {
  Platform p({"--devices", "1"});
  const std::string paper = "  policy: has-gpu-paper\n  slice: {quota: {request: 20%}}\n";
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file_with(paper, p.model(""))).code, 0);
  p.wait_until_settled("f", 1);
  EXPECT_EQ(p.instances("f")[0]["arbiter"], "window");
  EXPECT_EQ(p.apply({.name = "other"}).code, 0);
  const json other = p.until("/v1/functions/default/other", [](const json& now) {
    return !now["unavailable"].get<std::string>().empty();
  });
  EXPECT_THAT(other["unavailable"].get<std::string>(),
              HasSubstr("cpu0 runs the arbiter window for function f"));
  EXPECT_EQ(p.ask("f")["status"], 200);
  EXPECT_EQ(p.cli({"delete", "f"}).code, 0);
  p.wait_until_settled("other", 1);
  EXPECT_EQ(p.instances("other")[0]["arbiter"], "planned");
  EXPECT_EQ(p.instances("other")[0]["device"], "cpu0");
  EXPECT_EQ(p.ask("other")["status"], 200);
}

TEST(PlatformApply, TheUsersArbiterServesAllBundles) {
  Platform p({"--devices", "1", "--arbiter", "deadline"});
  const std::string paper = "  policy: has-gpu-paper\n  slice: {quota: {request: 20%}}\n";
  ASSERT_EQ(p.cli({"apply", "-f", "-"}, file_with(paper, p.model(""))).code, 0);
  p.wait_until_settled("f", 1);
  p.deploy({.name = "other"});
  for (const char* name : {"f", "other"})
    EXPECT_EQ(p.instances(name)[0]["arbiter"], "deadline") << name;
}

TEST(PlatformApply, AModelThatCannotBeLoadedSaysSoAndHarmsNobody) {
  Platform p;
  p.deploy({.name = "good"});
  EXPECT_EQ(p.apply({.words = "fail"}).code, 0);  // a model to find
  const json f = p.until("/v1/functions/default/f", [](const json& now) {
    return !now["unavailable"].get<std::string>().empty();
  });
  const std::string why = f["unavailable"], path = p.model("fail");
  EXPECT_THAT(why, HasSubstr(path + ": not a model"));
  EXPECT_EQ(why.find(path), why.rfind(path)) << "named twice: " << why;
  EXPECT_THAT(p.cli({"get", "functions"}).out, HasSubstr("could not start"));
  EXPECT_TRUE(eventually("a 503", [&] { return p.ask()["status"] == 503; }));
  EXPECT_THAT(p.ask()["error"].get<std::string>(), HasSubstr("not a model"));
  EXPECT_EQ(p.ask("good")["status"], 200);
}

}  // namespace
}  // namespace sluice
