#include "gateway/inferences.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::gateway {
namespace {

int asked(std::string_view body, std::string_view header = "") {
  Head head;
  head.clear();
  EXPECT_TRUE(head.set_line("POST", "/v2/models/m/infer", 4096));
  if (!header.empty()) {
    EXPECT_TRUE(head.add(http::field::unknown, "Sluice-Inferences", header, 4096));
  }
  return inferences_asked(head, body, body.size());
}

std::string body_of(const std::string& inputs) {
  return R"({"id": "a\"{", "parameters": {"x": [1, {"shape": [9]}]}, "inputs": )" + inputs +
         ", \"outputs\": []}" + std::string(100, '\xff');
}

TEST(InferencesAsked, AreTheFirstDimensionOfTheFirstInput) {
  EXPECT_EQ(asked(body_of(R"([{"name": "x", "shape": [8, 3, 224, 224], "datatype": "FP32"}])")), 8);
  EXPECT_EQ(asked(body_of(R"([{"name":"x","data":[[1.5,2],[3,4]],"shape":[2,2]},{"shape":[7]}])")),
            2);
  EXPECT_EQ(asked(body_of(R"([ { "shape" : [ 64 ] } ])")), 64);
}

TEST(InferencesAsked, OrWhatTheHeaderSays) {
  EXPECT_EQ(asked(body_of(R"([{"shape": [8]}])"), "16"), 16);
  EXPECT_EQ(asked(std::string(100, ' '), "3"), 3);
  EXPECT_EQ(asked(body_of(R"([{"shape": [8]}])"), "many"), 8);
  EXPECT_EQ(asked(body_of(R"([{"shape": [8]}])"), "-2"), 0);
}

TEST(InferencesAsked, AreUnknownWhereTheyCannotBe) {
  for (const char* shape : {"[-1]", "[0, 3]", "[1000000000000]", "[99999999999999999999]", "[1.5]",
                            "[1e3]", "[]", "\"8\"", "[[8]]", "[65537]", "[60000]", "[8", "8"})
    EXPECT_EQ(asked(body_of("[{\"shape\": " + std::string(shape) + "}]")), 0) << shape;
  for (const char* inputs : {"[]", "{}", "[[]]", "[{}]", "null", "[{\"data\": [1, 2}]"})
    EXPECT_EQ(asked(body_of(inputs)), 0) << inputs;
  EXPECT_EQ(asked(""), 0);
  EXPECT_EQ(asked("{\"inputs\""), 0);
  EXPECT_EQ(asked(std::string(20'000, '[')), 0) << "deep";
}

// What stands behind the first 16 KiB is not looked for.
TEST(InferencesAsked, TensorsAreNotRead) {
  const auto with_data_of = [](size_t bytes) {
    return body_of("[{\"data\": \"" + std::string(bytes, 'x') + "\", \"shape\": [4]}]");
  };
  EXPECT_EQ(asked(with_data_of(15'000)), 4);
  EXPECT_EQ(asked(with_data_of(17'000)), 0);
}

}  // namespace
}  // namespace sluice::gateway
