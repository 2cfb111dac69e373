#include "control/model_archive.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/folder_for_test.h"
#include "control/archive_for_test.h"
#include "control/validate.h"

namespace sluice::control {
namespace {

class ModelArchive : public testing::Test {
 protected:
  // What is said of a file with these bytes; empty: it is one.
  std::string said(const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto checked = check_model_archive(path);
    return checked.ok() ? "" : checked.error().message.substr(path.size() + 2);
  }

  const FolderForTest folder;
  const std::string path = folder.path + "/m.pt";
};

TEST_F(ModelArchive, ListsItsConstants) {
  EXPECT_EQ(said(archive_for_test("weights")), "");
  EXPECT_EQ(said(archive_for_test("weights", "model/data.pkl")),
            "is no TorchScript model (an archive without constants.pkl; torch.jit.save makes one "
            "with it)");
}

TEST_F(ModelArchive, IsWhole) {
  const std::string whole = archive_for_test(std::string(500, 'w'));
  for (size_t size = 4; size < whole.size(); ++size)
    EXPECT_EQ(said(whole.substr(0, size)),
              "is truncated (" + std::to_string(size) + " bytes, its directory is missing)");
  std::string lies = whole;  // about where its directory is
  lies.replace(lies.size() - 6, 4, "\xf0\xff\xff\x7f");
  EXPECT_NE(said(lies), "");
}

TEST_F(ModelArchive, IsNoOtherFile) {
  for (const char* text : {"", "PK", "I am no model"})
    EXPECT_EQ(said(text), "is no TorchScript model (it is no zip archive)");
  EXPECT_EQ(check_model_archive(folder.path).error().message, folder.path + ": is a directory");
  EXPECT_EQ(check_model_archive(folder.path + "/none").error().message,
            folder.path + "/none: no such file, or not readable");
}

// Nothing writes to it: an open that waits for a writer would never return.
TEST_F(ModelArchive, IsNoFifo) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(check_model_archive(path).error().message, path + ": is no regular file");
}

TEST_F(ModelArchive, ALargeDirectoryIsNotRead) {
  const std::string whole = archive_for_test("weights");
  constexpr size_t kHole = size_t{1} << 30;
  std::ofstream(path, std::ios::binary) << whole.substr(0, 40);
  std::filesystem::resize_file(path, kHole);
  std::string end = whole.substr(whole.size() - 22);
  end.replace(12, 8, std::string("\0\0\0\x30\0\0\0\0", 8));
  std::ofstream(path, std::ios::binary | std::ios::app) << end;
  EXPECT_EQ(check_model_archive(path).error().message,
            path + ": its directory has 805306368 bytes; at most 16777216 are allowed");
}

// Beyond 4 GiB the directory's place stands in a record of its own.
TEST_F(ModelArchive, MayBeLargerThan4GiB) {
  const std::string whole = archive_for_test("weights");
  const std::string end = whole.substr(whole.size() - 22);
  const std::string files = whole.substr(0, whole.size() - 22);
  const std::string wide = std::string("PK\6\6") + std::string(36, '\0') + end.substr(12, 4) +
                           std::string(4, '\0') + end.substr(16, 4) + std::string(4, '\0');
  const auto at = static_cast<char>(files.size());  // below 128
  ASSERT_LT(files.size(), 128u);
  const std::string locator = std::string("PK\6\7") + std::string(4, '\0') + at +
                              std::string(7, '\0') + std::string(4, '\0');
  EXPECT_EQ(
      said(files + wide + locator + end.substr(0, 12) + std::string(8, '\xff') + end.substr(20)),
      "");
}

TEST(CheckModel, NamesTheFieldAndTheFile) {
  const FolderForTest folder;
  const std::string path = folder.path + "/m";
  FunctionSpec spec;
  spec.model.path = path + ".pt";
  EXPECT_EQ(check_model(spec).error().message,
            "model.path: " + path + ".pt: no such file, or not readable");
  write_model_for_test(path);
  EXPECT_TRUE(check_model(spec).ok());
  EXPECT_EQ(spec.model.inputs.size(), 1u);
  std::filesystem::resize_file(path + ".json", size_t{2} << 20);
  EXPECT_EQ(check_model(spec).error().message,
            "model.path: " + path + ".json: has 2097152 bytes; at most 1048576 are allowed");
  std::filesystem::remove(path + ".json");
  ASSERT_EQ(mkfifo((path + ".json").c_str(), 0600), 0);
  EXPECT_NE(check_model(spec).error().message.find("is no regular file"), std::string::npos);
}

}  // namespace
}  // namespace sluice::control
