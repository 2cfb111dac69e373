// Functions on emulated GPUs under MPS: they are measured at several widths, and run at these under
// policies that choose among them. Each width is a start, since MPS confines a process for good.
//
// A server of MPS takes processes of one user alone: of an ordinary user's platform that user, of
// root's a uid of the platform's own.
#include <filesystem>
#include <fstream>

#include "node/uid_claim.h"
#include "process/process_identity.h"
#include "tests/support/emulated_gpus.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr uid_t kOrdinary = 54321;
constexpr int kKernels = 80;  // permille of a window that its kernels may run beyond the quota

uid_t ordinary_user() {
  return geteuid() == 0 ? kOrdinary : geteuid();
}

class OnAGpu : public EmulatedGpus {
 protected:
  OnAGpu(uid_t user, const std::string& control) {
    make("devices=1 sms=132 memory_mib=1024 shared=1");
    for (const char* part : {"/gpu", "/gpu.memory"}) chmod((folder_ + part).c_str(), 0666);
    std::vector<std::string> flags{"--nvml", copied(SLUICE_EMULATED_NVML)};
    if (!control.empty()) flags.insert(flags.end(), {"--mps", copied(control)});
    copied(SLUICE_EMULATED_DRIVER_FOLDER "/libcuda.so.1");
    platform_ = std::make_unique<Platform>(flags, copy_libraries, user);
    std::ofstream(folder_ + "/body") << "{}";
  }
  ~OnAGpu() override { platform_.reset(); }

  // The platform looks for the libraries of programs beside itself.
  static bool copy_libraries(const std::string& data) {
    for (const char* name : {"libsluice_cuda.so", "libsluice_nvml.so", "driver"})
      std::filesystem::copy(
          program(name), data + "/" + name,
          std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    return true;
  }
  // The build's folders may be closed to that user.
  std::string copied(const std::string& file) const {
    const std::string to = folder_ + "/" + std::filesystem::path(file).filename().string();
    std::filesystem::copy(file, to);
    return to;
  }
  // A server that replays a recorded ResNet-50, twenty times as slow: the device is what takes its
  // time.
  std::string file_of(const std::string& policy) {
    const std::string file = folder_ + "/" + policy + ".yaml";
    std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n"
                           "metadata: {name: f}\nspec:\n  device: cuda\n  slo: {latency: 400ms}\n"
                           "  containerConcurrency: 1\n  policy: "
                        << policy << "\n  server:\n    command: [replay_server]\n    args: ["
                        << getenv("SLUICE_EMULATED_GPU") << ", resnet50-graph, \"20\"]\n"
                        << "    files: [" << server_ << ", " << trace_ << "]\n"
                        << "    env: {LD_LIBRARY_PATH: " << folder_ << "}\n"
                        << "    readiness: /healthz\n";
    return file;
  }
  void mps_serves() {
    platform_->until("/v1/devices", [](const json& all) {
      return std::ranges::any_of(all, [](const json& d) {
        return d.value("mps_status", "").starts_with("control daemon ");
      });
    });
  }
  Ended profile(const std::vector<std::string>& flags) {
    std::vector<std::string> words{"profile", "-f", file_of("has-gpu"), "--body",
                                   folder_ + "/body"};
    words.insert(words.end(), flags.begin(), flags.end());
    return platform_->cli(words);
  }
  // The stored point; null if there is none.
  json point(int sm, int quota) const {
    const json all = platform_->get("/v1/profiles");
    for (const json& p : all.at(0)["points"])
      if (p["sm"] == sm && p["quota"] == quota) return p;
    return nullptr;
  }

  const std::string server_ = copied(SLUICE_REPLAY_SERVER),
                    trace_ = copied(SLUICE_LAUNCHES "/launches/resnet50-graph");
  std::unique_ptr<Platform> platform_;
};

class FunctionUnderMps : public OnAGpu, public testing::WithParamInterface<bool> {
 protected:
  FunctionUnderMps() : OnAGpu(GetParam() ? 0 : ordinary_user(), SLUICE_MPS_CONTROL) {}
  void SetUp() override {
    if (GetParam() && geteuid() != 0) GTEST_SKIP() << "not root";
  }
};
INSTANTIATE_TEST_SUITE_P(, FunctionUnderMps, testing::Bool(),
                         [](const auto& info) { return info.param ? "OfRoot" : "OfAUser"; });

TEST_P(FunctionUnderMps, IsMeasuredAtSeveralWidthsAndRunsAtOneOfThem) {
  mps_serves();
  const Ended profiled = profile({"--sms", "50,100", "--quotas", "40,100", "--seconds", "1"});
  ASSERT_EQ(profiled.code, 0) << profiled.err;
  std::puts(profiled.out.c_str());
  EXPECT_THAT(profiled.out, HasSubstr("UTIL"));
  ASSERT_EQ(platform_->get("/v1/profiles").at(0)["points"].size(), 4U);
  for (const int sm : {1000, 500}) {
    const json whole = point(sm, 1000), part = point(sm, 400);
    EXPECT_GT(whole["throughput"].get<double>(), 1.5 * part["throughput"].get<double>()) << sm;
    EXPECT_LE(part["utilisation"], 400 + kKernels) << sm;
    EXPECT_GE(part["utilisation"], 250) << sm;
    EXPECT_GT(whole["utilisation"], part["utilisation"]) << sm;
    EXPECT_GT(whole["sm_occupancy"], part["sm_occupancy"]) << sm;
    EXPECT_GT(part["sm_occupancy"], 0) << sm;
  }
  EXPECT_GT(point(500, 1000)["latency_p50_us"], point(1000, 1000)["latency_p50_us"]);
  EXPECT_LE(point(500, 1000)["sm_occupancy"], 500);

  for (const char* policy : {"has-gpu", "fast-gshare"}) {
    const Ended applied = platform_->cli({"apply", "-f", file_of(policy)});
    ASSERT_EQ(applied.code, 0) << applied.err;
    platform_->wait_until_settled("f", 1);
    const json instance = platform_->instances().at(0);
    EXPECT_EQ(instance["device"], "cuda0") << policy;
    EXPECT_THAT(instance["slice"]["sm"].get<int>(), AnyOf(500, 1000)) << policy;
    EXPECT_EQ(platform_->ask()["status"], 200) << policy;
    const std::optional<uid_t> user = node::uid_of(instance["pid"]);
    ASSERT_TRUE(user) << policy;
    EXPECT_NE(*user, 0U);
    EXPECT_EQ(*user % node::kUidsPerBlock == node::kUidsPerBlock - 1, GetParam()) << *user;
    EXPECT_EQ(platform_->cli({"delete", "f"}).code, 0);
    platform_->until("/v1/instances", [](const json& all) {
      return std::ranges::all_of(all, [](const json& i) { return i["state"] == "gone"; });
    });
  }
}

class FunctionWithoutMps : public OnAGpu {
 protected:
  FunctionWithoutMps() : OnAGpu(ordinary_user(), "") {}
};

TEST_F(FunctionWithoutMps, HasAllSmsAndNamedPointsAreQuotasAlone) {
  const Ended refused = profile({"--sms", "50"});
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("--sms: 50% of cuda0: only 100 is allowed"));
  const Ended profiled = profile({"--points", "fast-gshare", "--seconds", "0.1"});
  ASSERT_EQ(profiled.code, 0) << profiled.err;
  EXPECT_EQ(platform_->get("/v1/profiles").at(0)["points"].size(), 5U);
  EXPECT_FALSE(point(1000, 600).is_null());
}

}  // namespace
}  // namespace sluice
