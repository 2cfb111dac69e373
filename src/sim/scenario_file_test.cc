#include "sim/scenario_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/folder.h"

namespace sluice::sim {
namespace {

using testing::HasSubstr;

const std::string kFunction = R"(---
apiVersion: sluice.dev/v1alpha1
kind: InferenceFunction
metadata: {name: f}
spec:
  model: {path: f.pt}
  slo: {latency: 100ms}
)";

std::string scenario(const std::string& more, const std::string& load = "{function: f, rate: 5}") {
  return R"(apiVersion: sluice.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  duration: 10s
  devices:
    - {type: gpu, count: 2, memory: 1Gi}
  profiles:
    - {model: f.pt, device: gpu, points: [{batch: 1, sm: 100%, latency: 10ms}]}
  loads:
    - )" +
         load + "\n" + more + kFunction;
}

std::string fault(const std::string& text, const std::string& folder = "/nowhere") {
  const auto parsed = parse_scenario(text, "s.yaml", folder);
  return parsed.ok() ? "" : parsed.error().message;
}

TEST(ScenarioFile, ReadsDevicesFunctionsAndLoads) {
  const auto s = parse_scenario(scenario("  coldStart: [1s, 2s]\n"), "s.yaml", "/nowhere");
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->cluster.devices.size(), 2u);
  EXPECT_EQ(s->cluster.devices[1].device.id, "gpu-n0000/01");
  EXPECT_EQ(s->cluster.cold_starts, (std::vector<Nanos>{Seconds(1), Seconds(2)}));
  ASSERT_EQ(s->functions.size(), 1u);
  EXPECT_EQ(s->functions[0].name.name, "f");
  ASSERT_EQ(s->loads.size(), 1u);
  EXPECT_EQ(s->loads[0].plan, (RatePlan{{Seconds(10), 5}}));
  EXPECT_EQ(s->loads[0].seed, std::nullopt);
  const auto seeded = parse_scenario(scenario("", "{function: f, rate: 5, seed: 7}"), "s", "/");
  EXPECT_EQ(seeded->loads[0].seed, 7);
}

TEST(ScenarioFile, CopiesAFunctionWithItsLoadsAndItsTruth) {
  const auto s =
      parse_scenario(scenario("    - {function: f, rate: 7}\n"
                              "  copies: {f: 3}\n  truths: [{function: f, slowness: 2}]\n"
                              "  stepping: fluid\n"),
                     "s.yaml", "/nowhere");
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_EQ(s->cluster.stepping, Stepping::kFluid);
  std::string names;
  for (const FunctionSpec& f : s->functions) names += f.name.name + " ";
  EXPECT_EQ(names, "f-0000 f-0001 f-0002 ");
  EXPECT_EQ(s->loads.size(), 6u);
  EXPECT_EQ(s->loads.back().function.name, "f-0002");
  EXPECT_EQ(s->cluster.truths.size(), 3u);
  EXPECT_EQ(s->cluster.truths.at(s->functions[1].name).slowness, 2);
}

TEST(ScenarioFile, AFunctionIsProfiledUnlessItsTruthSaysElse) {
  for (const bool profiled : {true, false}) {
    const std::string word = profiled ? "true" : "false";
    const auto s = parse_scenario(scenario("  truths: [{function: f, profiled: " + word + "}]\n"),
                                  "s.yaml", "/nowhere");
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_EQ(s->cluster.truths.at(s->functions[0].name).profiled, profiled);
  }
  EXPECT_TRUE(Truth{}.profiled);
}

TEST(ScenarioFile, TakesTheNodesThatAlibabaHas) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/nodes.csv") << "sn,cpu_milli,memory_mib,gpu,model\n"
                                               "n1,64000,262144,2,gpu\nn2,64000,262144,1,T4\n"
                                               "n3,64000,262144,1,gpu\n";
  std::string text = scenario("");
  const auto with = [&](const std::string& device) {
    std::string s = text;
    const std::string before = "{type: gpu, count: 2, memory: 1Gi}";
    return s.replace(s.find(before), before.size(), device);
  };
  const auto s =
      parse_scenario(with("{type: gpu, memory: 1Gi, nodes: nodes.csv}"), "s.yaml", folder.path);
  ASSERT_TRUE(s.ok()) << s.error().message;
  std::string ids;
  for (const DevicePlan& d : s->cluster.devices) ids += d.device.id + " ";
  EXPECT_EQ(ids, "n1/00 n1/01 n3/00 ");
  EXPECT_THAT(fault(with("{type: A100, memory: 1Gi, nodes: nodes.csv}"), folder.path),
              HasSubstr("\"A100\" is no GPU model of nodes.csv; there are gpu and T4"));
  EXPECT_THAT(fault(with("{type: gpu, memory: 1Gi, count: 2, nodes: nodes.csv}"), folder.path),
              HasSubstr("nodes: stands in place of count and perNode"));
}

TEST(ScenarioFile, TakesVirtualClustersAndLoans) {
  const auto text = [](const std::string& nodes, const std::string& loans) {
    std::string s = scenario("  loans: " + loans + "\n");
    const std::string before = "{type: gpu, count: 2, memory: 1Gi}";
    return s.replace(s.find(before), before.size(),
                     "{type: gpu, count: 4, perNode: 1, memory: 1Gi, " + nodes + "}");
  };
  const auto s = parse_scenario(
      text("inferenceNodes: 2, trainingNodes: 1", "{reclaim: lyra, idle: 5s, spare: 1}"), "s.yaml",
      ".");
  ASSERT_TRUE(s.ok()) << s.error().message;
  const std::map<std::string, std::string> homes{
      {"gpu-n0000", "inference"}, {"gpu-n0001", "inference"}, {"gpu-n0002", "training"}};
  EXPECT_EQ(s->cluster.virtual_clusters, homes);
  EXPECT_EQ(s->loans, (policy::LoanRules{policy::ReclaimRule::kLyra, Seconds(5), 1}));
  EXPECT_THAT(fault(text("inferenceNodes: 5", "{}")), HasSubstr("inferenceNodes: \"5\""));
  EXPECT_THAT(fault(text("inferenceNodes: 4, trainingNodes: 1", "{}")), HasSubstr("trainingNodes"));
  EXPECT_THAT(fault(text("inferenceNodes: 1", "{reclaim: fapse}")),
              HasSubstr("did you mean 'fapes'?"));
}

// The scenario with these fields of its devices beside their type.
std::string with_devices(const std::string& fields, const std::string& more = "") {
  std::string text = scenario(more);
  return text.replace(text.find("count: 2"), 8, "count: 2, " + fields);
}

TEST(ScenarioFile, ReadsGpusAndTheHostsOfTheirPrograms) {
  const auto s = parse_scenario(
      with_devices("kind: gpu, slice: 4ms, switch: 0s", "  truths: [{function: f, host: 80%}]\n"),
      "s.yaml", "/nowhere");
  ASSERT_TRUE(s.ok()) << s.error().message;
  GpuPhysics gpu{.slice = Millis(4), .switching = Nanos(0)};
  EXPECT_EQ(s->cluster.devices[1].physics.gpu, gpu);
  EXPECT_EQ(s->cluster.truths.at(s->functions[0].name).host, Share{800});
  const auto sliced =
      parse_scenario(with_devices("kind: gpu, smQuantum: 100%"), "s.yaml", "/nowhere");
  ASSERT_TRUE(sliced.ok()) << sliced.error().message;
  EXPECT_FALSE(sliced->cluster.devices[0].physics.gpu->side_by_side);
  const auto cpus = parse_scenario(with_devices("kind: cpu"), "s.yaml", "/nowhere");
  ASSERT_TRUE(cpus.ok()) << cpus.error().message;
  EXPECT_FALSE(cpus->cluster.devices[0].physics.gpu.has_value());
}

TEST(ScenarioFile, RefusesWhatOnlyGpusHaveAndWhatTheyLack) {
  struct Case {
    std::string text, want;
  };
  const std::string host = "  truths: [{function: f, host: ";
  const Case cases[] = {
      {with_devices("kind: tpu"), "devices[0].kind: \"tpu\" is neither cpu nor gpu"},
      {with_devices("linger: 1ms"), "devices[0].linger: goes with kind: gpu"},
      {with_devices("kind: gpu, slice: 1us"), "devices[0].slice: \"1us\" is not a duration from"},
      {with_devices("kind: gpu, switch: 1s"), "devices[0].switch: \"1s\" is not a duration from"},
      {with_devices("kind: gpu", "  stepping: fluid\n"),
       "devices[0].kind: stepping: devices of kind gpu are exact"},
      {with_devices("kind: gpu", host + "101%}]\n"), "truths[0].host: \"101%\" is not a share"},
      {with_devices("kind: gpu", host + "100%}]\n"), "truths[0].host: is the whole of a batch"},
      {with_devices("kind: cpu", host + "80%}]\n"), "truths[0].host: goes with devices of kind"},
  };
  for (const Case& c : cases) EXPECT_THAT(fault(c.text), HasSubstr(c.want)) << c.text;
}

TEST(ScenarioFile, NamesTheLineTheFieldAndWhatIsAllowed) {
  struct Case {
    std::string text, want;
  };
  const Case cases[] = {
      {scenario("  colds: 1s\n"), "s.yaml:12 spec.colds: unknown field"},
      {scenario("  hop: 5m\n"), "s.yaml:12 spec.hop: \"5m\" is not a duration from 0"},
      {scenario("", "{function: f, rate: -1}"), "s.yaml:11 spec.loads[0].rate: \"-1\" is not"},
      {scenario("", "{function: g, rate: 1}"), "s.yaml:11 spec.loads[0].function: \"g\" is no"},
      {scenario("", "{function: f, file: r.txt}"), "spec.loads[0].file: /nowhere/r.txt: No such"},
      {scenario("  duration: 1s\n"), "s.yaml:12 spec.duration: stands twice"},
      {scenario("  policies: [kap]\n"), "spec.policies: \"kap\" is no policy"},
      {scenario("  plans: [fofi]\n"), "spec.plans: \"fofi\" is no plan, did you mean \"fifo\"?"},
      {scenario("  plans: fifo\n"), "spec.plans: must be a list of plans' names"},
      {scenario("  faults: [{at: 1s, fail: gpu9}]\n"), "faults[0].fail: \"gpu9\" is not of this"},
      {scenario("  faults: [{at: 1s, crash: f, lasts: 1s}]\n"), "Allowed: gateway"},
      {scenario("  faults: [{at: 1s, silence: gateway}]\n"), "lasts: is missing"},
      {scenario("  faults: [{at: 1s, kill: f, lasts: 1s}]\n"), "lasts: does not go with kill"},
      {scenario("  faults: [{at: 1s, kill: f, by: 1s}]\n"), "by: does not go with kill"},
      {scenario("  faults: [{at: 1s, slow: f, times: -2}]\n"), "times: \"-2\" is not a number"},
      {scenario("  faults: [{at: 1s, slow: f, times: .nan}]\n"), "times: \".nan\" is not a number"},
      {scenario("  faults: [{at: 1s}]\n"), "at: a fault has one of kill, fail, silence, crash"},
      {scenario("  faults: [{at: 1s, kill: f, slow: f}]\n"), "this one has 2"},
      {scenario("", "{function: f, rate: nan}"),
       "loads[0].rate: \"nan\" is not a number from 0 to"},
      {scenario("", "{function: f, rate: 1e300}"), "\"1e300\" is not a number from 0 to 1000000"},
      {scenario("  settle: 20s\n"), "s.yaml:12 spec.settle: is not before the end"},
      {scenario("") + "  sloo: 1\n", "s.yaml:19 spec.sloo: unknown field"},
      {scenario("", "{function: f, rate: 1, scale: 2}"), "spec.loads[0].scale: goes with file"},
      {scenario("", "{function: f, file: ''}"), "spec.loads[0].file: must name a file"},
      {scenario("  truths: [{function: f}, {function: f}]\n"), "its truth stands twice"},
      {scenario("  truths: [{function: f, profiled: maybe}]\n"), "must be true or false"},
      {scenario("  tick: 5s\n"), "spec.tick: \"5s\" is not"},
      {scenario("  stepping: rough\n"), "spec.stepping: \"rough\" is neither exact nor fluid"},
      {scenario("  copies: {g: 2}\n"), "spec.copies.g: unknown field"},
      {scenario("  copies: {f: 0}\n"), "spec.copies.f: \"0\" is not"},
      {scenario("  copies: {f: 2}\n  faults: [{at: 1s, kill: f}]\n"), "\"f\" is not of this"},
      {"kind: [", "s.yaml:1"},
      {"kind: Scenario\n", "spec: is missing; it must be the scenario"},
      {"", "wants a Scenario"},
  };
  for (const Case& c : cases) EXPECT_THAT(fault(c.text), HasSubstr(c.want)) << c.text;
}

TEST(ScenarioFile, ReadsEveryKindOfFault) {
  const auto s = parse_scenario(scenario(R"(  faults:
    - {at: 1s, kill: f}
    - {at: 1s, fail: gpu-n0000/00}
    - {at: 1s, silence: gateway, lasts: 2s}
    - {at: 1s, crash: gateway, lasts: 2s}
    - {at: 1s, loseOrders: gpu-n0000, lasts: 2s}
    - {at: 1s, delayOrders: gpu-n0000, lasts: 2s, by: 3s}
    - {at: 1s, loseAnswers: gpu-n0000, lasts: 2s}
    - {at: 1s, slowStarts: gpu-n0000, lasts: 2s, times: 3}
    - {at: 1s, slow: default/f, times: 1.5}
    - {at: 1s, jumpClock: back, by: 1h}
)"),
                                "s.yaml", "/nowhere");
  ASSERT_TRUE(s.ok()) << s.error().message;
  ASSERT_EQ(s->faults.size(), fault_kinds().size());
  for (size_t k = 0; k < s->faults.size(); ++k) EXPECT_EQ(s->faults[k].kind, fault_kinds()[k].kind);
  EXPECT_EQ(s->faults[5].by, Seconds(3));
  EXPECT_EQ(s->faults[7].times, 3);
  EXPECT_EQ(s->faults[8].subject, "f");
}

TEST(ScenarioFile, RefusesClustersThatCannotBe) {
  const auto with = [](const std::string& before, const std::string& after) {
    std::string text = scenario("");
    return fault(text.replace(text.find(before), before.size(), after));
  };
  EXPECT_THAT(with("count: 2", "count: 0"),
              HasSubstr("s.yaml:7 spec.devices[0].count: \"0\" is not"));
  EXPECT_THAT(with("memory: 1Gi", "memory: 0"), HasSubstr("memory: must be more than 0"));
  EXPECT_THAT(with("memory: 1Gi", "memory: -1Gi"), HasSubstr("spec.devices[0].memory: "));
  EXPECT_THAT(with("devices:\n    - {type: gpu, count: 2, memory: 1Gi}", "devices: []"),
              HasSubstr("s.yaml:6 spec.devices: must be a list of mappings, of one at least"));
  EXPECT_THAT(with("device: gpu,", "device: gpu, memory: 2Gi,"),
              HasSubstr("spec.devices: they have memory for 0 instances of f, which has 1"));
  EXPECT_THAT(
      with("  slo:", "  minReplicas: 9\n  memory: 256Mi\n  slo:"),
      HasSubstr("they have memory for 8 instances of f, which has 9 at least (minReplicas)"));
}

TEST(ScenarioFile, EveryFormatOfATraceBecomesALoad) {
  const std::map<std::string, std::string> formats = {{"lines", "lines"},
                                                      {"azure_minutes", "azure-minutes"},
                                                      {"has_gpu", "has-gpu"},
                                                      {"k6", "k6"},
                                                      {"openb_pods", "openb-pods"},
                                                      {"azure_llm", "arrivals"},
                                                      {"arrivals", "arrivals"},
                                                      {"azure_2019", "azure-minutes"},
                                                      {"azure_llm_2024", "arrivals"},
                                                      {"openb_pods_gpuspec", "openb-pods"}};
  for (const auto& [file, format] : formats) {
    const auto s =
        parse_scenario(scenario("", "{function: f, file: " + file + ", format: " + format + "}"),
                       "s.yaml", SLUICE_TRACES);
    ASSERT_TRUE(s.ok()) << s.error().message;
    EXPECT_TRUE(s->loads[0].times.empty() != s->loads[0].plan.empty()) << file;
  }
}

TEST(ScenarioFile, SpeedShortensTheStepsOfALoad) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/r.txt") << "1\n2\n";
  const auto s = parse_scenario(scenario("", "{function: f, file: r.txt, step: 60s, speed: 12}"),
                                "s.yaml", folder.path);
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_EQ(s->loads[0].plan, (RatePlan{{Seconds(5), 1}, {Seconds(5), 2}}));
}

TEST(ScenarioFile, NamesTheLineOfAFileThatItReads) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/r.txt") << "1\nx\n";
  const auto loaded = [&](const std::string& more) {
    return fault(scenario("", "{function: f, file: r.txt" + more + "}"), folder.path);
  };
  EXPECT_THAT(loaded(""), HasSubstr("/r.txt: line 2: rate: 'x' is no number"));
  EXPECT_THAT(loaded(", format: lines"), HasSubstr("/r.txt:2 rate: 'x' is no number from 0"));
  EXPECT_THAT(loaded(", format: arrivals"), HasSubstr("/r.txt:1 there is no column 'timestamp'"));
  EXPECT_THAT(loaded(", format: k7"), HasSubstr("format 'k7' not found"));
  EXPECT_THAT(loaded(", format: openb-pods"), HasSubstr("/r.txt:2 there is no column 'name'"));
  std::string text = scenario("");
  const std::string points = "points: [{batch: 1, sm: 100%, latency: 10ms}]";
  text.replace(text.find(points), points.size(), "table: t.csv");
  std::ofstream(folder.path + "/t.csv") << "1,50,0.01,extra\r\n\r\n2,100,0.02\n";
  EXPECT_EQ(fault(text, folder.path), "");
  std::ofstream(folder.path + "/t.csv") << "1,50,0.01\n0,50,0.01\n";
  EXPECT_THAT(fault(text, folder.path), HasSubstr("/t.csv:2 '0,50,0.01' is not batch (1 to 1024)"));
  EXPECT_THAT(loaded(", format: arrivals, scale: 2"), HasSubstr("neither scaled nor repeated"));
}

}  // namespace
}  // namespace sluice::sim
