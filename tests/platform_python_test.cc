// A program function in Python whose instances are forks of a template (`imports`), on a whole
// platform: examples/torch_server as a user runs it, from its file to its scaling by load.
#include <filesystem>
#include <fstream>

#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kExample = SLUICE_SOURCE "/examples/torch_server";

// The example's file, with more lines in its spec.
std::string example_with(const std::string& more) {
  std::ifstream file(kExample / "server.yaml");
  std::string text = (std::ostringstream() << file.rdbuf()).str();
  const std::string files = "[server.py, ../../python/sluice_serve.py]";
  EXPECT_NE(text.find(files), text.npos);
  return text.replace(text.find(files), files.size(),
                      "[" + (kExample / "server.py").string() +
                          ", " SLUICE_SOURCE "/python/sluice_serve.py]") +
         more;
}

pid_t parent_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("PPid:")) return std::stoi(line.substr(5));
  return 0;
}

// A request of one image.
std::string image() {
  const json request = {{"inputs",
                         {{{"name", "image"},
                           {"datatype", "FP32"},
                           {"shape", {1, 3, 64, 64}},
                           {"data", std::vector<double>(3 * 64 * 64, 0.5)}}}}};
  return request.dump();
}

class PlatformPython : public testing::Test {
 protected:
  PlatformPython() { std::ofstream(body) << image(); }
  ~PlatformPython() override { fs::remove(body); }

  // Returns the scores of an image.
  std::string scores() const {
    const Ended e = platform.cli({"invoke", "torch-server", "--body", body, "-o", "json"});
    EXPECT_EQ(e.code, 0) << e.err;
    return json::parse(e.out, nullptr, false)["answer"]["outputs"].dump();
  }
  // The number of instances that are ready.
  void wait_for_ready(size_t count) const {
    platform.until("/v1/instances", [&](const json& all) {
      size_t ready = 0;
      for (const json& i : all) ready += i["state"] == "ready";
      return ready == count;
    });
  }

  const std::string body = testing::TempDir() + "image" + std::to_string(getpid()) + ".json";
  Platform platform;
};

TEST_F(PlatformPython, TheExampleServesAndScalesByForks) {
  const Ended applied =
      platform.cli({"apply", "-f", (kExample / "server.yaml").string(), "--wait"});
  ASSERT_EQ(applied.code, 0) << applied.err;
  const std::string said = scores();
  EXPECT_THAT(said, HasSubstr(R"("name":"scores")"));

  const Ended changed = platform.cli({"apply", "-f", "-", "--wait"},
                                     example_with("  policy: {name: kpa, settings: {window: 6s}}\n"
                                                  "  scaleTarget: 1\n  maxReplicas: 3\n"));
  ASSERT_EQ(changed.code, 0) << changed.err;
  platform.wait_until_settled("torch-server", 1);
  const pid_t first = platform.a_pid("torch-server");
  // More than any machine answers, so that all connections wait at once: a rate that three
  // instances need on one machine is little for a faster one.
  auto load = std::async(std::launch::async, [&] {
    return platform.cli({"load", "torch-server", "--rate", "3000", "--duration", "5s", "--body",
                         body, "--connections", "16", "--max-failures", "100"});
  });
  wait_for_ready(3);
  const std::set<pid_t> all = platform.pids("torch-server");
  for (const pid_t pid : all) EXPECT_EQ(parent_of(pid), parent_of(first)) << "one template";
  EXPECT_EQ(load.get().code, 0);
  wait_for_ready(1);
  EXPECT_EQ(scores(), said) << "each instance has the same weights";
  ASSERT_EQ(platform.cli({"delete", "torch-server"}).code, 0);
  wait_for_ready(0);
}

TEST_F(PlatformPython, AMissingModuleIsShown) {
  std::string text = example_with("");
  text.replace(text.find("[torch]"), 7, "[torhc]");
  ASSERT_EQ(platform.cli({"apply", "-f", "-"}, text).code, 0);
  platform.until("/v1/functions/default/torch-server", [](const json& f) {
    return f.value("unavailable", "")
               .find("server.imports: torhc: ModuleNotFoundError: No module named 'torhc'") !=
           std::string::npos;
  });
}

TEST_F(PlatformPython, ItIsProfiledAsOthersAre) {
  const Ended profiled = platform.cli({"profile", "-f", (kExample / "server.yaml").string(),
                                       "--quotas", "50", "--seconds", "0.05"});
  EXPECT_EQ(profiled.code, 0) << profiled.err;
}

}  // namespace
}  // namespace sluice
