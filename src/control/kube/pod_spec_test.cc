#include "control/kube/pod_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "model/torch_variables.h"

namespace sluice::control {
namespace {

using nlohmann::json;

TEST(PodSpec, TheSchedulerCountsWhatIsGuaranteed) {
  PodOrder order{.instance = {.id = "f-1-abc", .function = {"default", "f"}},
                 .birth = ForkOfTemplate{.model = {.path = "/models/m.pt"}},
                 .node = "node1",
                 .millicores = 4000};
  order.instance.parts = {
      {"node1/cpu0", {.sm = {500}, .quota = {{300}, {600}}, .memory = 1000}, {}}};
  const json pod = pod_of(order, {.image = "sluice:dev"});
  const json& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["resources"]["requests"]["cpu"], "600m");
  const json memory = std::to_string((Bytes{256} << 20) + 1000);
  EXPECT_EQ(container["resources"]["requests"]["memory"], memory);
  EXPECT_EQ(container["resources"]["limits"], json({{"memory", memory}})) << "no limit of CPU";
  order.instance.parts[0].slice.memory = 0;
  EXPECT_FALSE(pod_of(order, {})["spec"]["containers"][0]["resources"].contains("limits"));
  EXPECT_EQ(pod["spec"]["restartPolicy"], "Never");
  EXPECT_FALSE(pod["spec"].contains("nodeName"));
  EXPECT_FALSE(pod["metadata"].contains("ownerReferences"));
  EXPECT_EQ(
      pod_of(order, {.image = "sluice:dev"}, "uid-7")["metadata"]["ownerReferences"][0]["uid"],
      "uid-7");
}

TEST(PodSpec, AModelServerHasWhatItWouldStartItselfAgainFor) {
  const json pod = pod_of({.instance = {.id = "f-1-abc", .function = {"default", "f"}},
                           .birth = ForkOfTemplate{.model = {.path = "/models/f.pt"}},
                           .node = "node1"},
                          {.image = "sluice:dev"});
  const json& env = pod["spec"]["containers"][0]["env"];
  for (const auto& [name, value] : kTorchVariables)
    EXPECT_THAT(env, testing::Contains(json{{"name", name}, {"value", value}}));
}

TEST(PodSpec, AProgramOnAGpuIsHeldToItsSliceOfIt) {
  PodOrder order{.instance = {.id = "f-1-abc", .function = {"default", "f"}},
                 .birth = ExecOfProgram{.command = {"/serve", "$(PORT)"},
                                        .environment = {{"LD_LIBRARY_PATH", "/own"}}},
                 .node = "node1",
                 .gpu = "GPU-7"};
  order.instance.parts = {{"node1/cuda0", {.sm = kWhole, .quota = {{300}, {600}}}, {}}};
  const auto container = [&](Bytes gpu_memory) {
    order.instance.parts[0].slice.memory = gpu_memory;
    return pod_of(order, {.image = "sluice:dev"})["spec"]["containers"][0];
  };
  const auto requests = [&](Bytes gpu_memory) {
    return std::stoll(container(gpu_memory)["resources"]["requests"]["memory"].get<std::string>());
  };
  EXPECT_EQ(requests(Bytes{1} << 30) - requests(0), Bytes{1} << 30) << "it loads by the host's";
  EXPECT_EQ(requests(Bytes{80} << 30) - requests(0), Bytes{4} << 30) << "a large one in parts";
  const json env = container(0)["env"];
  std::map<std::string, std::string> all;
  for (const json& v : env) EXPECT_TRUE(all.emplace(v["name"], v["value"]).second) << v;
  EXPECT_EQ(env[0]["name"], "PORT") << "the others may name it";
  EXPECT_EQ(all["CUDA_VISIBLE_DEVICES"], "GPU-7");
  EXPECT_EQ(all["LD_LIBRARY_PATH"], "/usr/lib/sluice/driver:/own");
  EXPECT_TRUE(all["LD_PRELOAD"].starts_with("/usr/lib/sluice/libsluice_cuda.so"));
}

TEST(PodSpec, AProgramOfAnotherImage) {
  PodOrder order{.instance = {.id = "f-1-abc", .function = {"default", "f"}},
                 .birth = ExecOfProgram{.image = "ada/server:1", .command = {"/serve"}},
                 .node = "node1"};
  json spec = pod_of(order, {.image = "sluice:dev"})["spec"];
  EXPECT_EQ(spec["containers"][0]["image"], "ada/server:1");
  EXPECT_FALSE(spec.contains("initContainers")) << "on a CPU it needs nothing of ours";

  order.gpu = "GPU-7";
  order.instance.parts = {{"node1/cuda0", {.sm = kWhole, .quota = {{300}, {600}}}, {}}};
  spec = pod_of(order, {.image = "sluice:dev"})["spec"];
  EXPECT_EQ(spec["containers"][0]["image"], "ada/server:1");
  EXPECT_EQ(spec["initContainers"][0]["image"], "sluice:dev") << "it brings the libraries";
  EXPECT_THAT(spec["containers"][0]["volumeMounts"],
              testing::Contains(json{
                  {"name", "libraries"}, {"mountPath", "/usr/lib/sluice"}, {"readOnly", true}}));
}

TEST(PodSpec, AModelAtAUrlIsFetchedBeforeItsServerStarts) {
  PodOrder order{.instance = {.id = "f-1-abc", .function = {"default", "f"}},
                 .birth = ForkOfTemplate{.model = {.path = "https://x.example/m.pt"}},
                 .node = "node1"};
  std::get<ForkOfTemplate>(order.birth).model.sha256 = "abc";
  const json spec = pod_of(order, {.image = "sluice:dev"})["spec"];
  const std::string fetch = spec["initContainers"][0]["command"].dump();
  EXPECT_NE(fetch.find("https://x.example/m.pt"), std::string::npos) << fetch;
  EXPECT_EQ(spec["initContainers"][0]["volumeMounts"][0]["name"], "cache");
  for (const json& mount : spec["containers"][0]["volumeMounts"])
    EXPECT_NE(mount["name"], "cache") << "a server could change what others fetch";
  const std::string serve = spec["containers"][0]["command"].dump();
  EXPECT_NE(serve.find("/model/model.pt"), std::string::npos) << serve;
}

}  // namespace
}  // namespace sluice::control
