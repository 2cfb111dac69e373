// Every bundle live: a real model on this machine, under a load that makes it act, and back to
// rest. A row of kCases is a bundle, with its windows shortened by settings; one without a row
// serves a load.
#include <algorithm>
#include <future>
#include <map>
#include <vector>

#include "policy/bundle.h"
#include "tests/support/folder.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;

struct BundleCase {
  std::string bundle;
  std::string settings;   // of the function file, in braces
  std::string more;       // lines of the function's spec
  std::string out, back;  // actions: one under the load, one after it; empty: none
  bool reaches_zero = false;
  bool known = true;  // whether it acts
  std::string load = "6s";
  int rate = 40;  // requests a second, of a device that answers kAnswers; a faster one gets more
};

void PrintTo(const BundleCase& c, std::ostream* out) {
  *out << c.bundle;
}

constexpr double kAnswers = 45;  // requests a second
constexpr const char* kSmall = "  slice: {quota: {request: 20%, limit: 20%}}\n";
constexpr const char* kOneAtOnce = "  scaleTarget: 1\n";
constexpr const char* kSoon = "window: 6, scale_out_after: 2, scale_in_after: 2";

const BundleCase kCases[] = {
    {.bundle = "has-gpu", .settings = "cooldown: 1s", .out = "resize", .back = "resize"},
    {.bundle = "has-gpu-paper", .settings = "cooldown: 1s", .out = "resize", .back = "resize"},
    // It answers 8 requests a second, half of that on a busy machine: all within the timeout.
    {.bundle = "fixed", .more = kSmall, .load = "2s", .rate = 20},
    // A whole device answers 40 to 50 a second, and as many wait for no other. The way back takes
    // the minute whose peak it remembers.
    {.bundle = "exclusive", .more = kOneAtOnce, .out = "start", .rate = 80},
    // It counts every 15 s.
    {.bundle = "hpa",
     .settings = "stabilization: 1s",
     .more = std::string(kSmall) + kOneAtOnce,
     .out = "start",
     .back = "stop",
     .load = "17s"},
    {.bundle = "kpa",
     .settings = "window: 6s, scale_to_zero_grace: 1s",
     .more = kOneAtOnce,
     .out = "start",
     .back = "stop",
     .reaches_zero = true,
     .rate = 80},
    // Its first instance may have a whole device.
    {.bundle = "fast-gshare",
     .out = "start",
     .back = "stop",
     .reaches_zero = true,
     .load = "12s",
     .rate = 160},
    // Nor may what they count as one instance's throughput be as much as the load.
    {.bundle = "dilu", .settings = kSoon, .out = "start", .back = "stop", .load = "8s", .rate = 80},
    {.bundle = "mps-l",
     .settings = kSoon,
     .out = "start",
     .back = "stop",
     .load = "8s",
     .rate = 80},
    {.bundle = "mps-r",
     .settings = kSoon,
     .out = "start",
     .back = "stop",
     .load = "8s",
     .rate = 80},
    {.bundle = "tgs", .settings = kSoon, .out = "start", .back = "stop", .load = "8s", .rate = 80},
    {.bundle = "smif",
     .settings = "window: 6s",
     .out = "start",
     .back = "stop",
     .reaches_zero = true,
     .load = "8s",
     .rate = 80},
    {.bundle = "infless", .out = "start", .back = "stop", .reaches_zero = true, .rate = 80},
};

// Paper settings differ in numbers alone; the plans of training jobs serve no requests.
std::vector<BundleCase> cases() {
  std::vector<BundleCase> all(std::begin(kCases), std::end(kCases));
  for (const policy::Bundle& b : policy::bundles()) {
    if (b.name.ends_with("-paper") || b.plan != "sluice") continue;
    if (std::ranges::find(kCases, b.name, &BundleCase::bundle) == std::end(kCases))
      all.push_back({.bundle = std::string(b.name),
                     .more = kSmall,
                     .known = false,
                     .load = "2s",
                     .rate = 20});
  }
  return all;
}

// One platform for all cases, so that the model is measured once.
class BundlesLive : public testing::TestWithParam<BundleCase> {
 protected:
  static void SetUpTestSuite() {
    platform_ = new Platform({"--runtime", program("sluice-runtime"), "--devices", "4"});
    const Ended measured =
        platform_->cli({"profile", "--seconds", "0.2", "-f", "-"}, file_of({.bundle = "has-gpu"}));
    ASSERT_EQ(measured.code, 0) << measured.out << measured.err;
    const json profile = platform_->get("/v1/profiles").at(0);
    for (const json& point : profile["points"])
      if (point["batch"] == 1 && point["quota"] == 1000)
        faster_ = std::max(1.0, 1e6 / point["latency_p50_us"].get<double>() / kAnswers);
    ASSERT_GT(faster_, 0);
  }
  static void TearDownTestSuite() {
    delete platform_;
    platform_ = nullptr;
  }

  static std::string file_of(const BundleCase& c) {
    return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata:\n  name: f\nspec:\n"
           "  model:\n    path: " SLUICE_MODELS
           "/mobilenet_v2.pt\n  slo:\n    latency: 200ms\n  batcher:\n    maxBatchSize: 4\n"
           "  timeout: 20s\n  maxReplicas: 4\n  minReplicas: " +
           std::string(c.reaches_zero ? "0\n  scaleToZeroAfter: 1s" : "1") +
           "\n  policy: {name: " + c.bundle + ", settings: {" + c.settings + "}}\n" + c.more;
  }

  // Waits until the loop has decided on that action after the decision `from`, and returns its
  // number.
  static int64_t decided(const std::string& action, int64_t from) {
    int64_t number = 0;
    platform_->until("/v1/instances", [&](const json&) {
      expect_nothing_over_committed();
      for (const json& d : platform_->get("/v1/decisions?function=default/f&limit=100"))
        if (d["action"] == action && d["number"] > from) number = d["number"];
      return number > 0;
    });
    EXPECT_GT(number, 0) << "no " << action << " after decision " << from << ": "
                         << platform_->get("/v1/decisions?function=default/f&limit=20").dump(1);
    return number;
  }
  static int64_t last_decision() {
    const json d = platform_->get("/v1/decisions?function=default/f&limit=1");
    return d.empty() ? 0 : d[0]["number"].get<int64_t>();
  }

  // The guaranteed slices on a device fit it.
  static void expect_nothing_over_committed() {
    std::map<std::string, int> held;  // cores × time, in millionths of the device
    for (const json& i : platform_->instances("f"))
      held[i["device"]] += i["slice"]["sm"].get<int>() * i["slice"]["request"].get<int>();
    for (const auto& [device, sum] : held) EXPECT_LE(sum, 1'000'000) << device;
  }

  static Platform* platform_;
  static double faster_;  // its devices than those that the rates are meant for
};
Platform* BundlesLive::platform_ = nullptr;
double BundlesLive::faster_ = 0;

TEST_P(BundlesLive, ActsUnderLoadAndComesToRest) {
  const BundleCase& c = GetParam();
  const Platform& p = *platform_;
  const Ended applied = p.cli({"apply", "--wait", "-f", "-"}, file_of(c));
  ASSERT_EQ(applied.code, 0) << applied.out << applied.err;
  const int64_t before = last_decision();
  auto load = std::async(std::launch::async, [&] {
    return p.cli({"-o", "json", "load", "f", "--rate", std::to_string(faster_ * c.rate),
                  "--duration", c.load, "--connections", "64"});
  });
  const int64_t out = c.out.empty() ? before : decided(c.out, before);
  const Ended loaded = load.get();
  EXPECT_EQ(loaded.code, 0) << loaded.out << loaded.err;
  EXPECT_EQ(json::parse(loaded.out)[0]["failed"], 0) << loaded.out;
  if (!c.back.empty()) decided(c.back, out);
  if (c.reaches_zero) {
    p.until("/v1/instances", [&](const json&) { return p.instances("f").empty(); });
    EXPECT_EQ(p.cli({"invoke", "f"}).code, 0) << "a held request starts it again";
  }
  if (c.out.empty() && c.known) {
    EXPECT_EQ(last_decision(), before);
  }
  EXPECT_EQ(p.cli({"delete", "f"}).code, 0);
  p.until("/v1/instances", [&](const json&) { return p.instances("f").empty(); });
}

INSTANTIATE_TEST_SUITE_P(Each, BundlesLive, testing::ValuesIn(cases()), [](const auto& c) {
  std::string name = c.param.bundle;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace sluice
