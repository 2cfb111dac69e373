// Admission of Pods with annotations.
#include "control/kube/admission.h"

#include <gtest/gtest.h>

#include "control/kube/node_devices.h"
#include "control/kube/objects.h"
#include "control/kube/pod_annotations.h"
#include "kube/base64.h"
#include "wire/json/json.h"

namespace sluice::control {
namespace {

using nlohmann::json;

json pod(json annotations) {
  return {
      {"metadata", {{"name", "p"}, {"annotations", std::move(annotations)}}},
      {"spec", {{"containers", {{{"name", "a"}}, {{"name", "b"}, {"env", {{{"name", "X"}}}}}}}}}};
}

json review(json object, const std::string& operation = "CREATE", json old = nullptr) {
  return {{"request",
           {{"uid", "u1"},
            {"namespace", "team"},
            {"operation", operation},
            {"object", std::move(object)},
            {"oldObject", std::move(old)}}}};
}

json ask(const json& r, NamespaceSlices slices = {}) {
  return admit(r, {}, [&](const std::string& space) {
    EXPECT_EQ(space, "team");
    return slices;
  })["response"];
}

// The Pod as the API server stores it.
json patched(const json& object) {
  const json response = ask(review(object));
  EXPECT_EQ(response["uid"], "u1");
  const std::string patch = kube::from_base64(response.value("patch", "")).value();
  return object.patch(json::parse(patch));
}

TEST(Admission, LetsOtherPodsThroughAsTheyAre) {
  const json response = ask(review(pod({{"a", "b"}})));
  EXPECT_EQ(response, (json{{"allowed", true}, {"uid", "u1"}}));
}

TEST(Admission, GivesEachContainerTheSocket) {
  const json p = patched(pod({{kQuotaAnnotation, "30%"}}));
  EXPECT_EQ(p["spec"]["volumes"][0]["hostPath"]["path"], "/run/sluice");
  for (const json& c : p["spec"]["containers"])
    EXPECT_EQ(c["volumeMounts"][0]["mountPath"], "/run/sluice");
  EXPECT_EQ(p["spec"]["containers"][1]["env"].size(), 2u) << "its own variables stay";
  EXPECT_EQ(p["metadata"]["labels"]["sluice.dev/sliced"], "true");
}

std::string value_of(const json& env, const std::string& name) {
  for (const json& v : env)
    if (v["name"] == name) return v.value("value", v.value("valueFrom", json()).dump());
  return "";
}

TEST(Admission, OnAGpuContainersPreloadOurLibrariesOnceTheGpuIsKnown) {
  json asked = pod({{kDeviceAnnotation, "cuda"}, {kQuotaAnnotation, "30%"}});
  asked["spec"]["initContainers"] = {{{"name", "its-own"}}};
  asked["spec"]["containers"][1]["env"] = {{{"name", "LD_PRELOAD"}, {"value", "/own.so"}},
                                           {{"name", "LD_LIBRARY_PATH"}, {"value", "/own"}}};
  const json spec = patched(asked)["spec"];
  ASSERT_EQ(spec["initContainers"].size(), 2u);
  EXPECT_EQ(spec["initContainers"][0]["name"], "sluice-gpu");
  EXPECT_FALSE(spec["initContainers"][0].contains("env")) << "ours needs no GPU";
  const std::string ours = "/usr/lib/sluice/libsluice_cuda.so:/usr/lib/sluice/libsluice_nvml.so";
  const json &first = spec["containers"][0], &second = spec["containers"][1];
  EXPECT_EQ(value_of(first["env"], "LD_PRELOAD"), ours);
  EXPECT_EQ(value_of(second["env"], "LD_PRELOAD"), ours + ":/own.so");
  EXPECT_EQ(value_of(second["env"], "LD_LIBRARY_PATH"), "/usr/lib/sluice/driver:/own");
  EXPECT_NE(value_of(spec["initContainers"][1]["env"], "LD_PRELOAD"), "");
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "SLUICE_VISIBLE_DEVICES"})
    EXPECT_NE(value_of(first["env"], name).find("annotations['sluice.dev/gpu']"),
              std::string::npos);
  EXPECT_EQ(first["resources"]["limits"][kGpuResource], "300");
  EXPECT_EQ(first["resources"]["requests"][kGpuResource], "300");
  EXPECT_FALSE(second.contains("resources")) << "it is counted once";
}

TEST(Admission, APodStaysOnItsKindOfDevice) {
  const json gpu = pod({{kDeviceAnnotation, "cuda"}, {kGpuAnnotation, "GPU-0"}});
  const json cpu = pod({{kQuotaAnnotation, "30%"}, {kGpuAnnotation, "GPU-0"}});
  const json none = pod({{kGpuAnnotation, "GPU-0"}});
  EXPECT_EQ(ask(review(gpu, "UPDATE", gpu))["allowed"], true);
  for (const auto& [now, before] : {std::pair(gpu, cpu), std::pair(cpu, gpu), std::pair(none, gpu)})
    EXPECT_EQ(ask(review(now, "UPDATE", before))["allowed"], false) << now;
}

TEST(Admission, RefusesWhatItCannotRead) {
  struct Case {
    const char *annotation, *value, *says;
  };
  for (const Case& c : {Case{kQuotaAnnotation, "a lot", "'a lot'"},
                        {kQuotaAnnotation, "60%-30%", "below what is guaranteed"},
                        {kQuotaAnnotation, "200%", "100"},
                        {kSmAnnotation, "-1", "'-1'"},
                        {kDeviceAnnotation, "tpu", "cpu and cuda"},
                        {kMemoryAnnotation, "2Gi", "sluice.dev/device: cuda"},
                        {kGpuAnnotation, "GPU-0", "agent alone"},
                        {kMemoryAnnotation, "2 cows", "'2 cows'"}}) {
    const json response = ask(review(pod({{c.annotation, c.value}})));
    EXPECT_EQ(response["allowed"], false) << c.value;
    const std::string message = response["status"]["message"];
    EXPECT_NE(message.find(c.says), std::string::npos) << message;
    EXPECT_NE(message.find(c.annotation), std::string::npos) << message;
  }
}

TEST(Admission, RefusesAMisspeltAnnotation) {
  const json response = ask(review(pod({{"sluice.dev/quotas", "30%"}, {"other/quota", "1"}})));
  EXPECT_EQ(response["allowed"], false);
  EXPECT_NE(
      response["status"]["message"].get<std::string>().find("sluice.dev/quotas: there is none"),
      std::string::npos);
  EXPECT_EQ(ask(review(pod({{"other/quota", "1"}})))["allowed"], true);
}

// It goes into Events and logs.
TEST(Admission, OfALongAnnotationTheBeginningIsSaid) {
  const json response = ask(review(pod({{kQuotaAnnotation, std::string(200'000, 'x') + "\n"}})));
  EXPECT_EQ(response["allowed"], false);
  EXPECT_LT(response["status"]["message"].get<std::string>().size(), 200u);
}

TEST(Admission, ANamespaceHasALimit) {
  const NamespaceSlices most{.held = {500}, .most = Share{800}};
  const json asks30 = pod({{kQuotaAnnotation, "30%"}}), asks40 = pod({{kQuotaAnnotation, "40%"}});
  EXPECT_EQ(ask(review(asks30), most)["allowed"], true);
  const json refused = ask(review(asks40), most);
  EXPECT_EQ(refused["allowed"], false);
  EXPECT_NE(refused["status"]["message"].get<std::string>().find("may hold 80%"),
            std::string::npos);
  EXPECT_EQ(ask(review(asks40, "UPDATE", asks30), most)["allowed"], true)
      << "what it holds already is its own";
}

TEST(Admission, ALimitThatCannotBeReadRefusesSlicesAlone) {
  const NamespaceSlices unclear{.fault =
                                    "annotation sluice.dev/most-quota of namespace team: lots"};
  const json refused = ask(review(pod({{kQuotaAnnotation, "30%"}})), unclear);
  EXPECT_EQ(refused["allowed"], false);
  EXPECT_EQ(refused["status"]["message"], unclear.fault);
  EXPECT_EQ(ask(review(pod({})), unclear)["allowed"], true);
}

// Without the label it would not count.
TEST(Admission, ASliceKeepsItsLabel) {
  json sliced = pod({{kQuotaAnnotation, "30%"}});
  const json bare = ask(review(sliced, "UPDATE", pod({})));
  EXPECT_EQ(sliced.patch(json::parse(
                *kube::from_base64(bare.value("patch", ""))))["metadata"]["labels"][kSlicedLabel],
            "true");
  sliced["metadata"]["labels"] = {{"app", "a"}, {kSlicedLabel, "true"}};
  EXPECT_FALSE(ask(review(sliced, "UPDATE", sliced)).contains("patch"));
  json removed = sliced;
  removed["metadata"]["labels"].erase(kSlicedLabel);
  const json back = ask(review(removed, "UPDATE", sliced));
  EXPECT_EQ(removed.patch(json::parse(*kube::from_base64(back.value("patch", "")))), sliced);
}

TEST(PodAnnotations, AreASlice) {
  const auto found = slice_of(
      {{kDeviceAnnotation, "cuda"}, {kQuotaAnnotation, "30%-60%"}, {kMemoryAnnotation, "2Gi"}});
  ASSERT_TRUE(found.ok() && *found);
  EXPECT_TRUE((*found)->on_gpu());
  EXPECT_EQ((*found)->permille(), 300);
  const Slice& slice = (*found)->slice;
  EXPECT_EQ(slice.quota, (Quota{{300}, {600}}));
  EXPECT_EQ(slice.sm, kWhole);
  EXPECT_EQ(slice.memory, Bytes{2} << 30);
  EXPECT_FALSE(*slice_of({{"other", "1"}}));
  EXPECT_EQ((*slice_of({{kSmAnnotation, "50%"}}))->slice.sm, Share{500});
  EXPECT_TRUE(slice_of({{kDeviceAnnotation, "cuda"}, {kSmAnnotation, "100%"}}).ok());
  const auto part = slice_of({{kDeviceAnnotation, "cuda"}, {kSmAnnotation, "50%"}});
  ASSERT_FALSE(part.ok()) << "no MPS confines it";
  EXPECT_NE(part.error().message.find("'50%': a Pod has all SMs of its GPU"), std::string::npos);
}

TEST(ChangedDevices, NameWhatIsGoneAndWhatIsNew) {
  EXPECT_EQ(changed_devices("cpu0: big\ncuda0: A GPU GPU-7\n", "cuda0: A GPU GPU-7\ncpu0: odd\n"),
            "gone: cpu0: big; new: cpu0: odd");
  EXPECT_EQ(changed_devices("cuda0: A GPU GPU-7\ncuda1: A GPU GPU-8\n", ""),
            "gone: cuda0: A GPU GPU-7, cuda1: A GPU GPU-8");
  EXPECT_EQ(changed_devices("cpu0: big\n", "cpu0: big\n"), "");
}

TEST(NodePatch, SaysWhatTheGpusHaveLeftForPods) {
  const auto gpu = [](const char* id, bool drained = false) {
    return wire::to_json(Device{.id = id,
                                .kind = DeviceKind::kCuda,
                                .model = "A GPU",
                                .uuid = "GPU-7",
                                .drained = drained,
                                .fault = drained ? "it fell off the bus" : ""});
  };
  const auto instance = [](bool foreign) {
    Instance i{.id = "f-1", .state = InstanceState::kReady};
    i.parts = {{"cuda0", {.sm = kWhole, .quota = {{300}, {300}}}, {}}};
    json out = wire::to_json(i);
    out["foreign"] = foreign;
    return out;
  };
  json state{{"devices", json::array({gpu("cuda0"), gpu("cuda1", true)})},
             {"instances", json::array({instance(false), instance(true)})}};
  const json patch = node_patch(state);
  EXPECT_EQ(patch["status"]["capacity"][kGpuResource], "700")
      << "without the function's slice; the scheduler knows of the Pod's";
  const std::string lines = patch["metadata"]["annotations"][kDevicesAnnotation];
  EXPECT_EQ(lines, "cuda0: A GPU GPU-7\ncuda1: A GPU GPU-7, fails: it fell off the bus");
  state["devices"] = json::array({wire::to_json(Device{.id = "cpu0"})});
  EXPECT_EQ(node_patch(state)["status"],
            json::parse(R"({"capacity": {"sluice.dev/gpu-permille": null}})"))
      << "what a node with GPUs had before";
}

TEST(PodAnnotations, ASumMayBeMoreThanADevice) {
  EXPECT_EQ(parse_quota_sum("250%").value(), Share{2500});
  for (const char* text : {"", "250", "many%", "-5%", "2.5%"})
    EXPECT_FALSE(parse_quota_sum(text).ok()) << text;
}

}  // namespace
}  // namespace sluice::control
