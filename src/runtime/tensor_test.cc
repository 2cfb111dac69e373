#include "runtime/tensor.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

TEST(Tensor, DatatypesKnowTheirNamesAndSizes) {
  for (const char* name : {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32",
                           "INT64", "FP16", "BF16", "FP32", "FP64", "BYTES"}) {
    const auto d = datatype_from(name);
    ASSERT_TRUE(d) << name;
    EXPECT_EQ(to_string(*d), name);
  }
  EXPECT_FALSE(datatype_from("fp32"));
  EXPECT_FALSE(datatype_from(""));
  EXPECT_EQ(element_bytes(Datatype::kBf16), 2u);
}

TEST(Tensor, ElementCountRefusesNegativeAndAbsurdShapes) {
  EXPECT_EQ(*element_count({}), 1);
  EXPECT_EQ(*element_count({2, 3, 4}), 24);
  EXPECT_EQ(*element_count({5, 0}), 0);
  EXPECT_FALSE(element_count({2, -1}).ok());
  EXPECT_FALSE(element_count({1ll << 40, 1ll << 40}).ok());
  EXPECT_FALSE(element_count({INT64_MAX}).ok());
  EXPECT_FALSE(element_count({3, INT64_MAX, 3}).ok());
}

TEST(Tensor, DataIsCheckedToTheByte) {
  EXPECT_TRUE(check_data({"x", Datatype::kFp32, {2}, std::string(8, '\0')}).ok());
  EXPECT_FALSE(check_data({"x", Datatype::kFp32, {2}, std::string(7, '\0')}).ok());
  EXPECT_FALSE(check_data({"x", Datatype::kFp32, {2}, std::string(9, '\0')}).ok());
  EXPECT_TRUE(check_data({"x", Datatype::kBool, {2}, std::string("\0\1", 2)}).ok());
  EXPECT_FALSE(check_data({"x", Datatype::kBool, {2}, std::string("\0\2", 2)}).ok());
}

TEST(Tensor, BytesElementsAreWalked) {
  Tensor t{"x", Datatype::kBytes, {3}, ""};
  for (const char* e : {"", "abc", "d"}) append_bytes_element(t.data, e);
  ASSERT_TRUE(check_data(t).ok());
  EXPECT_EQ(bytes_elements(t.data), (std::vector<std::string_view>{"", "abc", "d"}));
  t.data.pop_back();
  EXPECT_FALSE(check_data(t).ok());
  t.data += "dx";
  EXPECT_FALSE(check_data(t).ok());
  t.data = std::string("\xff\xff\xff\xff", 4);
  EXPECT_FALSE(check_data(t).ok());
}

}  // namespace
}  // namespace sluice::runtime
