// Models that do harm, or cannot be served, as their user meets them: in `sluice inspect`, `init`,
// `predict` and `apply`, and at an instance's start under the real runtime.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <torch/script.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/folder.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return (std::ostringstream() << file.rdbuf()).str();
}

// Whether the kernel can forbid a process to write files.
bool has_landlock() {
  constexpr long kCreateRuleset = 444;
  return syscall(kCreateRuleset, nullptr, 0, 1) > 0;
}

class HostileModel : public testing::Test {
 protected:
  // Open for others, so that only the victim's own rights and the confinement count.
  HostileModel() { chmod(folder.path.c_str(), 0711); }
  // A model x: FP32 [-1, 2] → y: FP32 [-1, 2], with its sidecar.
  std::string model(const std::string& name, const std::string& source,
                    const std::string& input = R"("shape":[-1,2])") const {
    const std::string path = folder.path + "/" + name;
    torch::jit::Module module("m");
    module.register_buffer("t", torch::zeros({8}));
    module.define(source);
    module.save(path + ".pt");
    std::ofstream(path + ".json")
        << R"({"inputs":[{"name":"x","datatype":"FP32",)" << input
        << R"(}],"outputs":[{"name":"y","datatype":"FP32","shape":[-1,2]}]})";
    return path + ".pt";
  }
  // One that overwrites a file when it is run, or already when it is read.
  std::string writer(const std::string& name, bool when_read) const {
    const std::string attack = "torch.from_file('" + victim + "', True, 8).fill_(7.0)";
    if (!when_read)
      return model(name, "def forward(self, x):\n    return x * 2 + " + attack + ".sum()\n");
    return model(name,
                 "def __getstate__(self):\n    return True\n"
                 "def __setstate__(self, state: bool):\n    self.t = " +
                     attack + "\ndef forward(self, x):\n    return x * 2 + self.t.sum()\n");
  }
  static Ended sluice(std::vector<std::string> words) {
    words.insert(words.begin(), program("sluice"));
    return run(words);
  }

  const TemporaryFolder folder;
  const std::string victim = folder.path + "/victim";
};

// Without confinement it does write: otherwise the next test would show nothing.
TEST_F(HostileModel, CouldWriteAFile) {
  std::ofstream(victim) << std::string(64, 'v');
  torch::jit::Module run = torch::jit::load(writer("run", false));
  EXPECT_EQ(text_of(victim)[0], 'v');
  (void)run.forward({torch::ones({1, 2})});
  EXPECT_NE(text_of(victim)[0], 'v');
  std::ofstream(victim) << std::string(64, 'v');
  (void)torch::jit::load(writer("read", true));
  EXPECT_NE(text_of(victim)[0], 'v');
}

// From a victim of mode 0600 the model's uid keeps it off; from one of mode 0666 Landlock does.
TEST_F(HostileModel, WritesNoFile) {
  if (geteuid() != 0 && !has_landlock())
    GTEST_SKIP() << "without root, Landlock alone keeps it off";
  const std::string before(64, 'v');
  std::ofstream(victim) << before;
  for (const mode_t mode : {0600, 0666}) {
    if (mode == 0666 && !has_landlock()) continue;
    ASSERT_EQ(chmod(victim.c_str(), mode), 0);
    for (const bool when_read : {false, true}) {
      const std::string pt = writer(when_read ? "read" : "run", when_read);
      for (const char* command : {"inspect", "predict"}) (void)sluice({command, pt});
      const std::string made = folder.path + "/made.pt";
      std::filesystem::copy_file(pt, made, std::filesystem::copy_options::overwrite_existing);
      (void)sluice({"init", made, "--input", "x:FP32:-1,2"});
      EXPECT_EQ(text_of(victim), before) << "mode " << std::oct << mode << ", read: " << when_read;
      std::filesystem::remove(folder.path + "/made.json");
      std::filesystem::remove(folder.path + "/made.yaml");
    }
  }
}

TEST_F(HostileModel, WhatItPrintsIsNoPartOfTheAnswer) {
  const std::string pt =
      model("loud", "def forward(self, x):\n    print('{\"outputs\": 7}')\n    return x * 2\n");
  const Ended inspected = sluice({"-o", "json", "inspect", pt});
  // What printing is to the operators' list is the runtime's answer, which came through whole.
  EXPECT_EQ(inspected.code, 2);
  EXPECT_THAT(inspected.err, HasSubstr("loud.pt: has control flow"));
  EXPECT_EQ(inspected.out, "");
}

TEST_F(HostileModel, EndsAtALimitThatIsNamed) {
  const std::string endless =
      model("endless", "def forward(self, x):\n    while True:\n        x = x + 1\n    return x\n");
  EXPECT_THAT(sluice({"inspect", "--timeout", "1s", endless}).err,
              HasSubstr(endless + ": takes longer than 1 s, the limit for"));
  const std::string large =
      model("large", "def forward(self, x):\n    return x + torch.zeros([4294967296]).sum()\n");
  EXPECT_THAT(sluice({"predict", large}).err,
              AllOf(HasSubstr("it takes more memory than 40"), HasSubstr("MiB, the limit for")));
}

TEST_F(HostileModel, AFileThatIsNoModelIsNamed) {
  const std::string pointer = folder.path + "/pointer.pt", page = folder.path + "/page.pt";
  std::ofstream(pointer) << "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n";
  std::ofstream(page) << "<!DOCTYPE html><html>Sign in</html>";
  for (const char* command : {"inspect", "init", "predict"}) {
    EXPECT_THAT(sluice({command, pointer}).err, HasSubstr("a Git LFS pointer")) << command;
    EXPECT_THAT(sluice({command, page}).err, HasSubstr("a page of HTML")) << command;
  }
}

TEST_F(HostileModel, ACauseThatNoInputChangesIsSaidInOurWords) {
  const std::string half =
      model("half", "def forward(self, x):\n    y = x.half()\n    return torch.mm(y, y.t())\n");
  EXPECT_THAT(sluice({"inspect", half}).err,
              AllOf(HasSubstr("half precision"), HasSubstr("model.float()")));
  const std::string cuda =
      model("cuda", "def forward(self, x):\n    return x + torch.ones([2], device='cuda:0')\n");
  EXPECT_THAT(sluice({"inspect", cuda}).err, AllOf(HasSubstr("CUDA"), HasSubstr("model.cpu()")));
}

// --- Under the platform, with the real runtime ---------------------------------------------------

class ServedModel : public HostileModel {
 protected:
  Ended apply(const std::string& name, const std::string& pt) const {
    const std::string file = folder.path + "/" + name + ".yaml";
    std::ofstream(file) << "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\n"
                        << "metadata: {name: " << name << "}\nspec:\n  model: {path: " << pt
                        << "}\n";
    return p.cli({"apply", "--wait", "--timeout", "60s", "-f", file});
  }
  json answer_of(const std::string& name, int elements) const {
    wire::HttpClient client(p.gateway(), Seconds(60));
    const auto answer =
        client.json(verb::post, "/v2/models/" + name + "/infer",
                    {{"inputs",
                      {{{"name", "x"},
                        {"datatype", "FP32"},
                        {"shape", {1, elements}},
                        {"data", std::vector<float>(static_cast<size_t>(elements), 1)}}}}});
    return answer.ok() ? (*answer)["outputs"][0]["data"] : json(answer.error().message);
  }

  const Platform p{{"--runtime", program("sluice-runtime")}};
};

TEST_F(ServedModel, WritesNoFileWhenItIsLoadedOrWarmedUp) {
  const std::string before(64, 'v');
  std::ofstream(victim) << before;
  chmod(victim.c_str(), has_landlock() ? 0666 : 0600);
  (void)apply("run", writer("run", false));
  (void)apply("read", writer("read", true));
  EXPECT_EQ(text_of(victim), before);
}

// One for inputs of eight elements alone, as a fully convolutional model has a least size.
TEST_F(ServedModel, ThatRefusesTheWarmUpServesAndASampleIsStated) {
  const std::string picky =
      "def forward(self, x):\n    assert x.size(1) == 8, 'eight'\n"
      "    assert bool(x.sum() > 0), 'positive'\n    return x[:, :2] * 2\n";
  const Ended applied = apply("picky", model("picky", picky, R"("shape":[-1,-1])"));
  EXPECT_EQ(applied.code, 0) << applied.err;
  EXPECT_EQ(answer_of("picky", 8), json({2.0, 2.0}));
  EXPECT_THAT(p.cli({"logs", p.instances("picky")[0]["id"]}).out, HasSubstr("not warmed up"));

  const Ended stated =
      apply("stated", model("stated", picky, R"("shape":[-1,-1],"sizes":[-1,8],"sample":1)"));
  EXPECT_EQ(stated.code, 0) << stated.err;
  EXPECT_EQ(answer_of("stated", 8), json({2.0, 2.0}));
  EXPECT_THAT(p.cli({"logs", p.instances("stated")[0]["id"]}).out,
              testing::Not(HasSubstr("warmed")));
}

TEST_F(ServedModel, ThatNoRequestCouldUseIsRefusedAtItsStartInOurWords) {
  const Ended half = apply("half", model("half",
                                         "def forward(self, x):\n    y = x.half()\n"
                                         "    return torch.mm(y, y.t())\n"));
  EXPECT_NE(half.code, 0);
  EXPECT_THAT(half.err, HasSubstr("half precision"));
}

}  // namespace
}  // namespace sluice
