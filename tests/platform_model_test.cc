// A revision keeps its model: later changes to the user's file change nothing that it serves.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/archive.h"
#include "tests/support/platform.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Writes the file in place: its inode stays.
void write_model(const Platform& p, const std::string& content) {
  std::ofstream(p.model("m")) << control::archive_of("\n" + content + "\n");
}

std::string served(const Platform& p) {
  const json answer = p.ask();
  return answer.value("model", "none") + " of revision " +
         answer.value("model_version", json()).dump();
}

TEST(PlatformModel, AReplacedFileIsANewRevisionAndRollbackBringsTheOldOneBack) {
  Platform p;
  const FunctionText f{.words = "m"};
  write_model(p, "old");
  p.deploy(f);
  EXPECT_EQ(served(p), "old of revision 1");
  write_model(p, "new");
  for (const pid_t pid : p.pids()) kill(pid, SIGKILL);
  p.until("/v1/functions/default/f",
          [](const json& now) { return now["starts"] == 2 && now["replicas"]["ready"] == 1; });
  EXPECT_EQ(served(p), "old of revision 1") << "nothing was applied";

  const Ended dry = p.cli({"apply", "--dry-run", "-f", "-"}, p.file_of(f));
  EXPECT_THAT(dry.out, HasSubstr("revision 2 changed (dry run)\n  model's content: "));
  p.deploy(f);
  EXPECT_EQ(served(p), "new of revision 2");
  EXPECT_THAT(p.apply(f).out, HasSubstr("revision 2 unchanged"));
  EXPECT_EQ(p.cli({"rollback", "f"}).code, 0);
  p.wait_until_settled("f", 1);
  EXPECT_EQ(served(p), "old of revision 1");
}

TEST(PlatformModel, AnInstanceThatDiesInACanaryComesBackWithItsOwnRevision) {
  Platform p;
  const FunctionText f{.words = "m", .more = "  canaryTrafficPercent: 50\n"};
  write_model(p, "old");
  p.deploy(f);
  write_model(p, "new");
  ASSERT_EQ(p.apply(f).code, 0);
  const auto both = [&](const json& now) {
    return now["replicas"]["ready"] == 2 && now["split"].size() == 2 &&
           now["split"][1]["percent"] == 50;
  };
  p.until("/v1/functions/default/f", both);
  for (const json& i : p.instances())
    if (i["revision"] == 1) kill(i["pid"].get<pid_t>(), SIGKILL);
  p.until("/v1/functions/default/f",
          [&](const json& now) { return now["starts"] == 3 && both(now); });
  std::map<std::string, int> answers;
  for (int i = 0; i < 20; ++i) ++answers[served(p)];
  EXPECT_EQ(answers,
            (std::map<std::string, int>{{"new of revision 2", 10}, {"old of revision 1", 10}}));
}

// The file of a function of two variants.
std::string with_variants(const std::string& big, const std::string& little) {
  return "apiVersion: sluice.dev/v1alpha1\nkind: InferenceFunction\nmetadata: {name: f}\nspec:\n"
         "  variants:\n"
         "  - {deviceType: big, path: \"" +
         big +
         "\"}\n"
         "  - {deviceType: little, quantization: int8, batch: 2, path: \"" +
         little +
         "\"}\n"
         "  policy: fixed\n  minReplicas: 2\n  slice: {quota: {request: 60%}}\n";
}

TEST(PlatformModel, AnInstanceHasTheVariantOfItsDevicesType) {
  Platform p({"--devices", "big=1x740m,little=1x400m"});
  const std::string strong = p.model("strong"), weak = p.model("weak");
  ASSERT_EQ(p.cli({"apply", "--wait", "-f", "-"}, with_variants(strong, weak)).code, 0);
  p.wait_until_settled("f", 2);
  std::filesystem::remove(weak);  // the revision keeps its copy
  std::set<std::string> answers;
  for (int i = 0; i < 20; ++i) answers.insert(served(p));
  EXPECT_EQ(answers, (std::set<std::string>{"strong of revision 1", "weak of revision 1"}));
  for (const pid_t pid : p.pids()) kill(pid, SIGKILL);
  p.until("/v1/functions/default/f",
          [](const json& now) { return now["starts"] == 4 && now["replicas"]["ready"] == 2; });
  EXPECT_THAT(p.cli({"describe", "f"}).out, HasSubstr("deviceType: \"little\""));
}

TEST(PlatformModel, AVariantThatIsMissingExcludesItsType) {
  Platform p({"--devices", "big=1x740m,little=1x400m"});
  const Ended applied =
      p.cli({"apply", "-f", "-"}, with_variants(p.model("strong"), "/srv/none.pt"));
  ASSERT_EQ(applied.code, 0) << applied.err;
  EXPECT_THAT(applied.out + applied.err, HasSubstr("variants: little: /srv/none.pt"));
  p.until("/v1/functions/default/f", [](const json& now) {
    return now["replicas"]["ready"] == 1 && !now["last_decision"].is_null();
  });
  for (const json& i : p.instances()) EXPECT_EQ(i["device"], "cpu0");
  EXPECT_EQ(served(p), "strong of revision 1");
  EXPECT_THAT(p.cli({"describe", "f"}).out,
              HasSubstr("not used: devices of type little: /srv/none.pt"));
  const Ended unknown = p.cli({"apply", "-f", "-"},
                              with_variants(p.model("strong"), "m.pt") + "  deviceTypes: [huge]\n");
  EXPECT_NE(unknown.code, 0);
  EXPECT_THAT(unknown.err, HasSubstr("deviceTypes: 'huge': no node has a device of this type"));
}

TEST(PlatformModel, CopiesGoWithTheirRevisions) {
  Platform p;
  write_model(p, "m");
  p.deploy({.words = "m"});
  const auto files = [&] {
    std::error_code none;
    const std::filesystem::directory_iterator copies(p.data + "/models", none);
    return std::distance(begin(copies), end(copies));
  };
  EXPECT_EQ(files(), 2);
  EXPECT_EQ(p.cli({"delete", "f"}).code, 0);
  EXPECT_TRUE(eventually("an empty folder", [&] { return files() == 0; }));
}

}  // namespace
}  // namespace sluice
