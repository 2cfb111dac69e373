#include "runtime/batch.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

const ModelSpec kModel{.inputs = {{"a", "INT8", {-1, 2}}, {"b", "INT8", {-1}}},
                       .outputs = {{"x", "INT8", {-1, 2}}}};

Tensor int8(const std::string& name, Shape shape, std::string data) {
  return {name, Datatype::kInt8, std::move(shape), std::move(data)};
}

TEST(Batch, ARequestNeedsBytesForTheElementsOfAWholeBatch) {
  struct Case {
    const char* datatype;
    std::vector<int64_t> in, out;
    std::optional<size_t> bytes;
  };
  const size_t mib = 1 << 20;
  const Case cases[] = {
      {"FP32", {-1, 3, 224, 224}, {-1, 10}, mib + 32 * 8 * 3 * 224 * 224},
      {"UINT8", {2, 3}, {1}, mib + 32 * 6},
      {"INT64", {-1, -1}, {-1, 10}, std::nullopt},
      {"FP32", {-1, 3}, {1}, std::nullopt},
      {"BYTES", {-1, 3}, {-1}, std::nullopt},
  };
  for (const Case& c : cases)
    EXPECT_EQ(
        request_bytes({.inputs = {{"a", c.datatype, c.in}}, .outputs = {{"x", "FP32", c.out}}}, 8),
        c.bytes)
        << c.datatype << c.in.size();
}

TEST(Batch, InferencesAreTheFirstDimension) {
  const InferRequest two{.inputs = {int8("a", {2, 2}, "abcd"), int8("b", {2}, "xy")}};
  EXPECT_EQ(*inferences_of(two, kModel, 4), 2);
  EXPECT_FALSE(inferences_of(two, kModel, 1).ok());
  const InferRequest uneven{.inputs = {int8("a", {2, 2}, "abcd"), int8("b", {1}, "x")}};
  EXPECT_FALSE(inferences_of(uneven, kModel, 4).ok());
  const InferRequest none{.inputs = {int8("a", {0, 2}, ""), int8("b", {0}, "")}};
  EXPECT_FALSE(inferences_of(none, kModel, 4).ok());
  const ModelSpec whole{.inputs = {{"a", "INT8", {2, 2}}}, .outputs = {{"x", "INT8", {-1}}}};
  EXPECT_EQ(*inferences_of({.inputs = {int8("a", {2, 2}, "abcd")}}, whole, 1), 1);
}

TEST(Batch, KeysDifferWhereRequestsMayNotMix) {
  const std::vector<Tensor> base{int8("a", {1, 2}, "ab")};
  const std::string key = batch_key(base);
  EXPECT_EQ(key, batch_key(std::vector{int8("a", {5, 2}, "…")}));
  EXPECT_NE(key, batch_key(std::vector{int8("a", {1, 3}, "…")}));
  EXPECT_NE(key, batch_key(std::vector{Tensor{"a", Datatype::kUint8, {1, 2}, ""}}));
}

TEST(Batch, SplitUndoesJoin) {
  Tensor text1{"t", Datatype::kBytes, {1, 1}, ""}, text2{"t", Datatype::kBytes, {2, 1}, ""};
  append_bytes_element(text1.data, "one");
  append_bytes_element(text2.data, "");
  append_bytes_element(text2.data, "three");
  const std::vector<Tensor> first{int8("a", {1, 2}, "ab"), text1};
  const std::vector<Tensor> second{int8("a", {2, 2}, "cdef"), text2};
  const std::vector<const std::vector<Tensor>*> parts{&first, &second};
  std::vector<Tensor> joined = join(parts);
  EXPECT_EQ(joined[0], int8("a", {3, 2}, "abcdef"));
  const std::vector<int> rows{1, 2};
  const auto cut = split(std::move(joined), rows);
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ((*cut)[0], first);
  EXPECT_EQ((*cut)[1], second);
}

TEST(Batch, PartsOfAnAnswerAreOneAnswerIfTheyFitTogether) {
  EXPECT_EQ(rows_of_parts(10, 4), (std::vector<int>{4, 4, 2}));
  EXPECT_EQ(rows_of_parts(8, 4), (std::vector<int>{4, 4}));
  using Parts = std::vector<std::vector<Tensor>>;
  const std::vector<int> rows{2, 1};
  const Parts fitting{{int8("x", {2, 2}, "abcd")}, {int8("x", {1, 2}, "ef")}};
  const auto joined = join_outputs(fitting, rows);
  ASSERT_TRUE(joined.ok());
  EXPECT_EQ((*joined)[0], int8("x", {3, 2}, "abcdef"));
  const Parts others[] = {{{int8("x", {2, 2}, "abcd")}, {int8("x", {1, 3}, "efg")}},
                          {{int8("x", {2, 2}, "abcd")}, {int8("x", {2, 2}, "efgh")}},
                          {{int8("x", {}, "a")}, {int8("x", {}, "b")}}};
  for (const Parts& parts : others) EXPECT_FALSE(join_outputs(parts, rows).ok());
}

TEST(Batch, AnOutputWithoutTheBatchsRowsIsAnError) {
  const std::vector<int> rows{1, 2};
  EXPECT_FALSE(split({int8("x", {2, 1}, "ab")}, rows).ok());
  EXPECT_FALSE(split({int8("x", {}, "a")}, rows).ok());
}

}  // namespace
}  // namespace sluice::runtime
