#include "control/local/model_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "control/local/model_check.h"
#include "control/spec/validate.h"
#include "tests/support/archive.h"
#include "tests/support/folder.h"

namespace sluice::control {
namespace {

class ModelArchive : public testing::Test {
 protected:
  // Returns the error for a file with these bytes; empty if it is an archive.
  std::string said(const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto checked = check_model_archive(path);
    return checked.ok() ? "" : checked.error().message.substr(path.size() + 2);
  }

  const TemporaryFolder folder;
  const std::string path = folder.path + "/m.pt";
};

TEST_F(ModelArchive, ListsItsConstants) {
  EXPECT_EQ(said(archive_of("weights")), "");
  EXPECT_EQ(said(archive_of("weights", "model/data.pkl")),
            "is no TorchScript model (an archive without constants.pkl; torch.jit.save makes one "
            "with it)");
}

// What users have in a model's place, as its publisher or their tools left it there.
TEST_F(ModelArchive, SaysWhatTheFileIsInstead) {
  const std::pair<std::string, std::string> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 102\n",
       "a Git LFS pointer"},
      {"\n<!DOCTYPE html>\n<html>", "a page of HTML"},
      {R"({"error": "Repository not found"})", "JSON"},
      {std::string("\x80\x02\x8a\nl\xfc\x9c", 7), "a pickle, such as a state_dict"},
      {std::string("\x58\0\0\0\0\0\0\0{\"a\"", 12), "a safetensors file"},
      {std::string("\x08\x07\x12\x07pytorch", 11), "an ONNX model"},
      {std::string("\x1f\x8b\x08\0", 4), "a gzip archive"}};
  for (const auto& [bytes, what] : files)
    EXPECT_THAT(said(bytes), testing::StartsWith("is no TorchScript model (it is " + what));
  EXPECT_THAT(said(archive_of("json", "serialized_exported_program.json")),
              testing::HasSubstr("(an archive of torch.export;"));
  EXPECT_THAT(said(archive_of("pt2", "m/archive_format")),
              testing::HasSubstr("(an archive of torch.export (.pt2);"));
}

TEST_F(ModelArchive, IsWhole) {
  const std::string whole = archive_of(std::string(500, 'w'));
  for (size_t size = 4; size < whole.size(); ++size)
    EXPECT_EQ(said(whole.substr(0, size)),
              "is truncated (" + std::to_string(size) + " bytes, its directory is missing)");
  std::string lies = whole;  // with a wrong place of its directory
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

// Without a writer: an open that waits for one would never return.
TEST_F(ModelArchive, IsNoFifo) {
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(check_model_archive(path).error().message, path + ": is no regular file");
}

TEST_F(ModelArchive, ALargeDirectoryIsNotRead) {
  const std::string whole = archive_of("weights");
  constexpr size_t kHole = size_t{1} << 30;
  std::ofstream(path, std::ios::binary) << whole.substr(0, 40);
  std::filesystem::resize_file(path, kHole);
  std::string end = whole.substr(whole.size() - 22);
  end.replace(12, 8, std::string("\0\0\0\x30\0\0\0\0", 8));
  std::ofstream(path, std::ios::binary | std::ios::app) << end;
  EXPECT_EQ(check_model_archive(path).error().message,
            path + ": its directory has 805306368 bytes; at most 16777216 are allowed");
}

// Beyond 4 GiB the directory's place is in a record of its own.
TEST_F(ModelArchive, MayBeLargerThan4GiB) {
  const std::string whole = archive_of("weights");
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
  const TemporaryFolder folder;
  const std::string path = folder.path + "/m";
  ModelSpec model;
  model.path = path + ".pt";
  EXPECT_EQ(check_model(model).error().message, path + ".pt: no such file, or not readable");
  write_model(path);
  EXPECT_TRUE(check_model(model).ok());
  EXPECT_EQ(model.inputs.size(), 1u);
  model.inputs.clear();
  std::filesystem::resize_file(path + ".json", size_t{2} << 20);
  EXPECT_EQ(check_model(model).error().message,
            path + ".json: has 2097152 bytes; at most 1048576 are allowed");
  std::filesystem::remove(path + ".json");
  model.inputs = model.outputs = {{"x", "FP32", {-1, 2}}};
  EXPECT_TRUE(check_model(model).ok()) << "the function's file says it";
  model.inputs.clear();
  ASSERT_EQ(mkfifo((path + ".json").c_str(), 0600), 0);
  EXPECT_NE(check_model(model).error().message.find("is no regular file"), std::string::npos);
}

// All that the model server's loader would refuse, at once.
TEST(CheckModel, NamesAllThatIsWrongWithASidecar) {
  const TemporaryFolder folder;
  const std::string path = folder.path + "/m";
  const auto said = [&](const std::string& sidecar) {
    ModelSpec model;
    model.path = path + ".pt";
    std::ofstream(path + ".pt") << archive_of("weights");
    std::ofstream(path + ".json") << sidecar;
    const auto checked = check_model(model);
    return checked.ok() ? "" : checked.error().message.substr(path.size() + 7);
  };
  const std::string x = R"({"name": "x", "datatype": "FP32", "shape": [-1, 3, 224, 224]})";
  // In the form of docs/function-file.md, and of older files.
  EXPECT_EQ(said(R"({"inputs": [)" + x + R"(], "outputs": [)" + x + "]}"), "");
  EXPECT_EQ(said(R"({"name": "m", "platform": "pytorch_torchscript", "inputs": [)" + x +
                 R"(], "outputs": [)" + x + "]}"),
            "");
  EXPECT_EQ(said(R"({"platform": "onnx", "inputs": [)" + x + R"(], "outputs": [)" + x + "]}"),
            R"(platform: "onnx" is not served: pytorch_torchscript is, and may be left out)");
  EXPECT_EQ(
      said(R"({"inputs": [{"name": "", "datatype": "FLOAT", "shape": [0]}, )" + x + ", " + x +
           "]}"),
      "inputs[0].name: is missing: the tensor's name; inputs[0].datatype: \"FLOAT\" is not known; "
      "allowed are BOOL, UINT8, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64; "
      "inputs[0].shape: the dimension 0 is neither -1 (variable) nor 1 or more; "
      "inputs[2].name: \"x\" stands twice; "
      "outputs: must be a list of {name, datatype, shape}, of one at least");
  EXPECT_EQ(said(R"({"name": 3, "inputs": [3], "outputs": [{"name": "x", "datatype": "FP32"}]})"),
            "name: 3 is no text; it may be left out; inputs[0]: must be {name, datatype, shape}; "
            "outputs[0].shape: must be a list of whole numbers, such as [-1, 3]");
}

TEST(CheckFeasible, AWidthThatNoDeviceHasIsRefused) {
  FunctionSpec spec;
  const std::vector<Device> whole{{.id = "cpu0", .sm_quantum = kWhole}};
  const std::vector<Device> halves{{.id = "cpu0", .sm_quantum = {500}},
                                   {.id = "cpu1", .sm_quantum = kWhole}};
  EXPECT_TRUE(check_feasible(spec, whole, {}).ok());
  spec.slice = Slice{.sm = {500}, .quota = {kWhole, kWhole}};
  EXPECT_TRUE(check_feasible(spec, halves, {}).ok());
  EXPECT_TRUE(check_feasible(spec, {}, {}).ok()) << "no device is known yet";
  EXPECT_EQ(check_feasible(spec, whole, {}).error().message,
            "slice.sm: 50% is not a supported width; the devices here support multiples of 100%.");
  spec.slice->sm = {300};
  EXPECT_EQ(
      check_feasible(spec, halves, {}).error().message,
      "slice.sm: 30% is not a supported width; the devices here support multiples of 50% or 100%.");
}

}  // namespace
}  // namespace sluice::control
