#include "runtime/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/batch.h"
#include "wire/json/model_description.h"

namespace sluice::runtime {
namespace {

using testing::HasSubstr;

class EngineTest : public testing::Test {
 protected:
  EngineTest() : folder_(testing::TempDir() + "engine" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~EngineTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  static std::string metadata(const std::string& datatype) {
    const std::string shape = R"(","datatype":")" + datatype + R"(","shape":[-1,2]})";
    return R"({"name":"m","platform":"sluice_builtin","inputs":[{"name":"a)" + shape +
           R"(,{"name":"b)" + shape + R"(],"outputs":[{"name":"x)" + shape + R"(,{"name":"y)" +
           shape + "]}";
  }
  std::string error_of(const std::string& json, const std::string& model) {
    write("m.json", json);
    const auto file = read_model_file(write("m.model", model));
    if (!file.ok()) return file.error().message;
    const auto loaded = load_model(*file);
    return loaded.ok() ? "none" : loaded.error().message;
  }

  const std::string folder_;
};

TEST_F(EngineTest, AddSubAddsAndSubtracts) {
  write("m.json", metadata("INT32"));
  const auto file = read_model_file(write("m.model", R"({"builtin":"add_sub"})"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(batchable(file->spec));
  auto model = load_model(*file);
  ASSERT_TRUE(model.ok()) << model.error().message;
  Gate gate;
  const int32_t a[] = {5, INT32_MAX}, b[] = {7, 1};
  const std::vector<Tensor> inputs{
      {"a", Datatype::kInt32, {1, 2}, {reinterpret_cast<const char*>(a), 8}},
      {"b", Datatype::kInt32, {1, 2}, {reinterpret_cast<const char*>(b), 8}}};
  const auto outputs = (*model)->run(inputs, &gate);
  ASSERT_TRUE(outputs.ok());
  int32_t sum[2], difference[2];
  std::memcpy(sum, (*outputs)[0].data.data(), 8);
  std::memcpy(difference, (*outputs)[1].data.data(), 8);
  EXPECT_EQ(sum[0], 12);
  EXPECT_EQ(sum[1], INT32_MIN);
  EXPECT_EQ(difference[0], -2);
}

TEST_F(EngineTest, EveryBuiltinWarmsUp) {
  for (const char* datatype : {"INT32", "BYTES", "FP16"}) {
    write("m.json", metadata(datatype));
    const auto file = read_model_file(write("m.model", R"({"builtin":"spin","spin_us":10})"));
    auto model = load_model(*file);
    ASSERT_TRUE(model.ok()) << model.error().message;
    EXPECT_EQ(*warm_up(**model, file->spec, 3), "");
  }
}

TEST_F(EngineTest, WhatIsWrongIsNamed) {
  const std::string good = metadata("INT32"), add = R"({"builtin":"add_sub"})";
  EXPECT_EQ(error_of(good, add), "none");
  EXPECT_THAT(error_of("{", add), HasSubstr("m.json: JSON"));
  EXPECT_THAT(error_of(R"({"name":"m"})", add), HasSubstr("inputs: must be a list"));
  EXPECT_THAT(error_of(metadata("INT33"), add),
              HasSubstr("\"INT33\" is not known; allowed are BOOL"));
  EXPECT_THAT(error_of(metadata("INT16"), add), HasSubstr("INT32 or all FP32"));
  EXPECT_THAT(error_of(good, R"({"builtin":"what"})"), HasSubstr("'what' is none of"));
  EXPECT_THAT(error_of(good, R"({"builtin":"spin","spin_us":-1})"), HasSubstr("spin_us"));
  EXPECT_THAT(error_of(good, "not json"), HasSubstr("m.model"));
  std::string other = good;
  other.replace(other.find("sluice_builtin"), 14, "onnx");
  EXPECT_THAT(error_of(other, add), HasSubstr("no engine for 'onnx'"));

  EXPECT_EQ(read_model_file(folder_ + "/none.pt").error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(read_model_file(write("lone.pt", "")).error().message, HasSubstr("lone.json"));
  EXPECT_EQ(read_model_file(folder_).error().kind, ErrorKind::kInvalid);
}

// The loader knows every datatype that `apply` accepts.
TEST(Datatypes, EveryOneThatASidecarMayNameIsKnown) {
  for (const char* platform : {"pytorch_torchscript", "sluice_builtin"})
    for (const std::string_view name : wire::datatypes_of(platform))
      EXPECT_TRUE(datatype_from(name)) << name;
}

}  // namespace
}  // namespace sluice::runtime
