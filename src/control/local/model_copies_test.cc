#include "control/local/model_copies.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "control/local/model_check.h"
#include "tests/support/archive.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

namespace fs = std::filesystem;

class ModelCopiesTest : public testing::Test {
 protected:
  void write(const std::string& bytes) {
    std::ofstream(model.path, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  std::set<std::string> files() {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(copies_folder))
      out.insert(entry.path().filename());
    return out;
  }
  std::string copy() const { return start_path(copies_folder, model); }

  const TemporaryFolder folder;
  const std::string copies_folder = folder.path + "/models";
  ModelCopies copies{copies_folder};
  ModelSpec model{.path = folder.path + "/m.pt", .inputs = {{"x", "FP32", {-1, 2}}}};
};

TEST_F(ModelCopiesTest, AContentOutlivesTheFileThatIsWrittenInPlace) {
  const std::string old(3'000'000, 'o');
  write(old);
  const auto first = copies.keep(model);
  ASSERT_TRUE(first.ok()) << first.error().message;
  const std::string old_copy = copy();
  write("new");
  ASSERT_TRUE(copies.keep(model).ok());
  EXPECT_NE(copy(), old_copy);
  EXPECT_EQ(read(copy()), "new");
  EXPECT_TRUE(read(old_copy) == old);
  write(old);
  ASSERT_TRUE(copies.keep(model).ok());
  EXPECT_EQ(copy(), old_copy) << "the same content has the same name";
}

TEST_F(ModelCopiesTest, InputsAndOutputsArePartOfTheContent) {
  write("weights");
  ASSERT_TRUE(copies.identify(model).ok());
  const std::string before = model.content;
  EXPECT_EQ(before.size(), 64u);
  EXPECT_FALSE(fs::exists(copies_folder)) << "to name it takes no copy";
  model.inputs[0].shape = {-1, 3};
  ASSERT_TRUE(copies.keep(model).ok());
  EXPECT_NE(model.content, before);
  EXPECT_NE(read(fs::path(copy()).replace_extension(".json")).find("[-1,3]"), std::string::npos);
}

TEST_F(ModelCopiesTest, WhatNoRevisionUsesAndNothingHoldsIsRemoved) {
  write("one");
  auto one = copies.keep(model);
  const std::string first = model.content;
  write("two");
  auto two = copies.keep(model);
  const std::string second = model.content;
  std::ofstream(copies_folder + "/7.new") << "half of what a process wrote that died";
  copies.sweep();
  EXPECT_EQ(files().size(), 5u) << "what revisions use is not known yet";
  copies.set_used({first});
  copies.sweep();
  EXPECT_EQ(files(), (std::set<std::string>{first + ".pt", first + ".json", second + ".pt",
                                            second + ".json"}));
  one->reset();
  two->reset();
  copies.sweep();
  EXPECT_EQ(files(), (std::set<std::string>{first + ".pt", first + ".json"}));
}

TEST_F(ModelCopiesTest, AStrangersFilesStay) {
  fs::create_directories(copies_folder + "/mine");
  const std::string hash(64, 'a');
  const std::set<std::string> strange{"mine.pt", "mine",      "1.txt",       "x.new",      ".old",
                                      "notes",   "AAAA.json", hash + ".txt", hash + "b.pt"};
  for (const std::string& name : strange)
    if (name != "mine") std::ofstream(fs::path(copies_folder) / name) << "a stranger's";
  for (const std::string& name : {hash + ".pt", hash + ".json", hash + ".json.new",
                                  std::string("3.old"), std::string("4.new")})
    std::ofstream(fs::path(copies_folder) / name) << "unused";
  fs::create_directories(copies_folder + "/" + std::string(64, 'b') + ".pt");
  copies.set_used({});
  copies.sweep();
  std::set<std::string> left = strange;
  left.insert(std::string(64, 'b') + ".pt");
  EXPECT_EQ(files(), left);
}

TEST_F(ModelCopiesTest, ACopyThatIsGoneIsMadeAgain) {
  write("weights");
  ASSERT_TRUE(copies.keep(model).ok());
  fs::remove(copy());
  ASSERT_TRUE(copies.keep(model).ok());
  EXPECT_EQ(read(copy()), "weights");
}

// Returns the bytes that this process passed to read() ("rchar") or write() ("wchar").
int64_t bytes_passed(const std::string& field) {
  std::ifstream io("/proc/self/io");
  for (std::string name; io >> name;)
    if (int64_t n = 0; io >> n && name == field + ":") return n;
  return -1;
}

TEST_F(ModelCopiesTest, ANewModelIsReadOnceAndAKnownCopyIsNotWrittenAgain) {
  constexpr int64_t kSize = 8 << 20;
  write(std::string(kSize, 'w'));
  const int64_t before = bytes_passed("rchar");
  if (before < 0) GTEST_SKIP() << "no /proc/self/io";
  ASSERT_TRUE(copies.keep(model).ok());
  EXPECT_LT(bytes_passed("rchar") - before, kSize * 3 / 2);
  ModelCopies restarted(copies_folder);
  const int64_t written = bytes_passed("wchar");
  ASSERT_TRUE(restarted.keep(model).ok());
  EXPECT_LT(bytes_passed("wchar") - written, kSize / 2);
}

TEST_F(ModelCopiesTest, AnUnchangedFileIsReadOnceToBeNamed) {
  model.path = fs::canonical("/usr/bin/python3");  // megabytes that were not just written
  ASSERT_TRUE(copies.identify(model).ok());
  const std::string content = std::exchange(model.content, "");
  const int64_t before = bytes_passed("rchar");
  if (before < 0) GTEST_SKIP() << "no /proc/self/io";
  ASSERT_TRUE(copies.identify(model).ok());
  EXPECT_LT(bytes_passed("rchar") - before, 100'000);
  EXPECT_EQ(model.content, content);
}

TEST_F(ModelCopiesTest, SeveralAreKeptAtOnce) {
  std::vector<ModelSpec> models(6, model);
  for (size_t i = 0; i < models.size(); ++i) {
    model.path = models[i].path = folder.path + "/m" + std::to_string(i) + ".pt";
    write(std::string(2'000'000, i % 2 == 0 ? 'a' : 'b'));
  }
  std::vector<std::thread> threads;
  std::vector<ModelCopies::Hold> holds(models.size());
  for (size_t i = 0; i < models.size(); ++i)
    threads.emplace_back([&, i] {
      if (auto kept = copies.keep(models[i]); kept.ok()) holds[i] = *kept;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(holds, nullptr), 0);
  EXPECT_EQ(models[0].content, models[2].content);
  EXPECT_EQ(files(),
            (std::set<std::string>{models[0].content + ".pt", models[0].content + ".json",
                                   models[1].content + ".pt", models[1].content + ".json"}));
}

// A file of sysfs claims a page and yields less, like a failing disk.
TEST_F(ModelCopiesTest, AFileThatCannotBeReadToItsEndIsRefused) {
  model.path = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (!fs::exists(model.path)) GTEST_SKIP() << "no sysfs";
  EXPECT_FALSE(copies.identify(model).ok());
  const auto kept = copies.keep(model);
  ASSERT_FALSE(kept.ok());
  EXPECT_NE(kept.error().message.find(" of 4096 bytes can be read"), std::string::npos)
      << kept.error().message;
  EXPECT_TRUE(files().empty());
}

TEST_F(ModelCopiesTest, ACopyThatFailsItsCheckIsNotKept) {
  write("replaced since it was checked");
  ModelCopies checked(copies_folder, check_model_file);
  const auto kept = checked.keep(model);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(kept.error().message,
            "model.path: " + model.path +
                " changed while it was copied. Apply again once it is completely written.");
  EXPECT_TRUE(files().empty());
  write(archive_of("weights"));
  EXPECT_TRUE(checked.keep(model).ok());
}

TEST_F(ModelCopiesTest, NothingIsReadAfterStop) {
  write("weights");
  copies.stop();
  EXPECT_EQ(copies.identify(model).error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(copies.keep(model).error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(files().empty());
}

TEST_F(ModelCopiesTest, AMissingFileIsNamed) {
  EXPECT_EQ(copies.keep(model).error().message, model.path + ": no such file, or not readable");
}

// In a process with file systems of its own.
TEST_F(ModelCopiesTest, AFullDiskIsNamedAndLeavesNothing) {
  write(std::string(1 << 20, 'w'));
  fs::create_directory(copies_folder);
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        mount("tmpfs", copies_folder.c_str(), "tmpfs", 0, "size=256k") != 0)
      _exit(2);
    const auto kept = copies.keep(model);
    if (!kept.ok()) std::fprintf(stderr, "%s\n", kept.error().message.c_str());
    const bool named =
        !kept.ok() && kept.error().kind == ErrorKind::kInternal &&
        kept.error().message.find("No space left on device") != std::string::npos &&
        kept.error().message.find(model.path + " cannot be copied") != std::string::npos;
    _exit(named && files().empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sluice::control
