// What a program function runs has a name by its bytes, and copies that are kept while they are
// used.
#include "control/local/program_copies.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>

#include "tests/support/eventually.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ProgramCopiesTest : public testing::Test {
 protected:
  ProgramCopiesTest() {
    write("app/main", "one");
    write("app/lib/part", "two");
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
  }
  std::vector<std::string> names(std::vector<std::string> files) const {
    for (std::string& f : files) f = root / f;
    const auto found = working_files({.command = {"main"}, .files = files});
    if (!found.ok()) return {found.error().message};
    std::vector<std::string> out;
    for (const WorkingFile& f : *found) out.push_back(f.name());
    return out;
  }
  std::string content(const ProgramSpec& program) const {
    return *content_of(program, *working_files(program), stopped);
  }
  // Keeps a copy of the program's files.
  std::string kept() {
    const std::string name = content(program);
    EXPECT_TRUE(copies.keep(program, *working_files(program), name, stopped).ok());
    return name;
  }
  void sweep_all_but(const std::string& used) {
    copies.sweep([&](const std::string& name, const std::string& to) {
      return name != used && ::rename(copies.path_of(name).c_str(), to.c_str()) == 0;
    });
  }

  const TemporaryFolder folder;
  const fs::path root = folder.path;
  const std::atomic<bool> stopped = false;
  ProgramSpec program{.command = {"main"}, .files = {(root / "app/").string()}};
  ProgramCopies copies{root / "served"};
};

TEST_F(ProgramCopiesTest, AFolderStandsForItselfOrForWhatItContains) {
  EXPECT_THAT(names({"app"}), ElementsAre("app/lib/part", "app/main"));
  EXPECT_THAT(names({"app/"}), ElementsAre("lib/part", "main"));
  EXPECT_THAT(names({"app/main", "app/lib"}), ElementsAre("lib/part", "main"));
  write("main", "another");
  EXPECT_THAT(names({"app/", "main"}), ElementsAre(HasSubstr("there is another main")));
  EXPECT_THAT(names({"nothing"}), ElementsAre(HasSubstr("server.files: ")));
}

TEST_F(ProgramCopiesTest, TheContentIsAllThatIsRun) {
  const std::string before = content(program);
  EXPECT_EQ(content(program), before);
  std::set<std::string> all{before};
  write("app/lib/part", "owt");
  all.insert(content(program));
  write("app/lib/part", "two");
  fs::permissions(root / "app/main", fs::perms(0755));
  all.insert(content(program));
  fs::permissions(root / "app/main", fs::perms(0644));
  EXPECT_EQ(content(program), before);
  for (auto change : std::initializer_list<void (*)(ProgramSpec&)>{
           [](ProgramSpec& p) { p.args = {"-v"}; },
           [](ProgramSpec& p) {
             p.env = {{"A", {.text = "b"}}};
           },
           [](ProgramSpec& p) { p.http = true; }, [](ProgramSpec& p) { p.readiness = "/"; },
           [](ProgramSpec& p) { p.port = 9000; }, [](ProgramSpec& p) { p.imports = {"torch"}; }}) {
    ProgramSpec other = program;
    change(other);
    all.insert(content(other));
  }
  EXPECT_EQ(all.size(), 9u);
}

TEST_F(ProgramCopiesTest, AFileThatOthersMayNotReadIsNotCopiedByRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can read what it may not";
  fs::permissions(root / "app/main", fs::perms(0640));
  EXPECT_THAT(names({"app/"}), ElementsAre(HasSubstr("main: others may not read it")));
}

// A database, say: it may change while the copy is made.
TEST_F(ProgramCopiesTest, OfWhatArgumentsNameAScriptIsContentAndMoreThanAMebibyteIsData) {
  program.args = {(root / "data").string()};
  std::set<std::string> all;
  for (const std::string text : {"a script", "another"}) {
    write("data", text);
    all.insert(content(program));
  }
  EXPECT_EQ(all.size(), 2u);
  const std::string large(2 << 20, 'x');
  write("data", large);
  const std::string data = content(program);
  write("data", large + "y");
  EXPECT_EQ(content(program), data);
  program.command.push_back((root / "data").string());
  const std::string named = content(program);
  write("data", large);
  EXPECT_NE(content(program), named);
}

TEST_F(ProgramCopiesTest, ACopyIsReadOnlyAndOnlyItsNameLeadsToIt) {
  fs::permissions(root / "app/main", fs::perms(0744));
  const fs::path copy = copies.path_of(kept());
  const auto mode = [](const fs::path& p) { return fs::status(p).permissions(); };
  EXPECT_EQ(mode(copy / "main"), fs::perms(0555));
  EXPECT_EQ(mode(copy / "lib/part"), fs::perms(0444));
  EXPECT_EQ(mode(copy / "lib"), fs::perms(0755));
  EXPECT_EQ(mode(copy.parent_path()), fs::perms(0711));
}

TEST_F(ProgramCopiesTest, AVolumeIsALinkWhoseFolderOutlivesTheCopy) {
  write("weights/part", "one");
  const std::string without = content(program);
  program.volumes = {root / "weights"};
  ASSERT_TRUE(check_program({.command = {"/bin/true"}, .volumes = program.volumes}).ok());
  const std::string name = kept();
  EXPECT_NE(name, without);
  const fs::path link = fs::path(copies.path_of(name)) / "weights";
  EXPECT_EQ(fs::read_symlink(link), root / "weights");
  sweep_all_but("");
  EXPECT_FALSE(fs::exists(link));
  EXPECT_TRUE(fs::exists(root / "weights/part"));
}

TEST_F(ProgramCopiesTest, AVolumeThatInstancesCouldWriteToIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "its instances have the platform's uid";
  const auto fault = [&](const std::string& path) {
    const auto taken = check_program({.command = {"/bin/true"}, .volumes = {path}});
    return taken.ok() ? "" : taken.error().message;
  };
  fs::create_directory(root / "open");
  fs::permissions(root / "open", fs::perms(0777));
  EXPECT_THAT(fault(root / "open"), HasSubstr("others may write to it"));
  fs::permissions(root / "open", fs::perms(0700));
  EXPECT_THAT(fault(root / "open"), HasSubstr("others may not read it"));
  EXPECT_THAT(fault(root / "none"), HasSubstr("No such file"));
  EXPECT_THAT(fault(root / "app/main"), HasSubstr("is no folder"));
}

TEST_F(ProgramCopiesTest, FilesThatAreNotWhatWasNamedAreNotKept) {
  const std::string name = content(program);
  write("app/main", "two");
  const auto kept = copies.keep(program, *working_files(program), name, stopped);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().kind, ErrorKind::kConflict);
  EXPECT_TRUE(fs::is_empty(root / "served"));
}

TEST_F(ProgramCopiesTest, WhatIsNotUsedIsRemovedUnlessAProcessWorksThere) {
  const std::string used = kept();
  write("app/main", "two");
  const std::string worked_in = kept();
  write("app/main", "three");
  const std::string unused = kept();
  write("served/1-0.new/half", "made by a dead process");
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(copies.path_of(worked_in).c_str()) != 0) _exit(1);
    for (;;) pause();
  }
  const fs::path cwd = "/proc/" + std::to_string(child) + "/cwd";
  ASSERT_TRUE(eventually("it to work there",
                         [&] { return fs::read_symlink(cwd) == copies.path_of(worked_in); }));
  sweep_all_but(used);
  EXPECT_TRUE(fs::exists(copies.path_of(used)));
  EXPECT_TRUE(fs::exists(copies.path_of(worked_in)));
  EXPECT_FALSE(fs::exists(copies.path_of(unused)));
  EXPECT_FALSE(fs::exists(root / "served/1-0.new"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sweep_all_but(used);
  EXPECT_FALSE(fs::exists(copies.path_of(worked_in)));
}

}  // namespace
}  // namespace sluice::control
