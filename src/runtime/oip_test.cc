#include "runtime/oip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace sluice::runtime {
namespace {

using testing::HasSubstr;

const ModelSpec kModel{
    .inputs = {{"a", "INT32", {-1, 2}}, {"b", "FP32", {-1, 2}}},
    .outputs = {{"x", "INT32", {-1, 2}}, {"y", "FP32", {-1, 2}}},
};

template <class T>
std::string raw(std::vector<T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Result<InferRequest> parse(std::string json, const std::string& binary = "",
                           const ModelSpec& model = kModel) {
  const std::string length = std::to_string(json.size());
  if (binary.empty()) return parse_infer(json, std::nullopt, model);
  return parse_infer(json + binary, length, model);
}

// A request for one input of the given type and shape, its data as given.
Result<InferRequest> parse_data(const std::string& datatype, const std::string& shape,
                                const std::string& data) {
  const ModelSpec model{.inputs = {{"t", datatype, {-1, -1}}}, .outputs = {{"x", "FP32", {-1}}}};
  return parse(R"({"inputs":[{"name":"t","datatype":")" + datatype + R"(","shape":)" + shape +
                   R"(,"data":)" + data + "}]}",
               "", model);
}

constexpr char kA[] = R"({"name":"a","datatype":"INT32","shape":[1,2],"data":[1,2]})";
constexpr char kB[] = R"({"name":"b","datatype":"FP32","shape":[1,2],"data":[0.5,-3]})";

std::string inputs(const std::string& list, const std::string& more = "") {
  return "{" + more + "\"inputs\":[" + list + "]}";
}

TEST(Oip, ReadsJsonTensorsInTheModelsOrder) {
  const auto r = parse(inputs(std::string(kB) + "," + kA, R"("id":"77","parameters":{"p":3},)"));
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->id, "77");
  ASSERT_EQ(r->inputs.size(), 2u);
  EXPECT_EQ(r->inputs[0], (Tensor{"a", Datatype::kInt32, {1, 2}, raw<int32_t>({1, 2})}));
  EXPECT_EQ(r->inputs[1], (Tensor{"b", Datatype::kFp32, {1, 2}, raw<float>({0.5, -3})}));
  EXPECT_EQ(r->outputs, (std::vector<RequestedOutput>{{"x", false}, {"y", false}}));
}

TEST(Oip, NestedAndFlatDataAreTheSame) {
  const auto flat = parse_data("INT16", "[2,2]", "[1,2,3,4]");
  const auto nested = parse_data("INT16", "[2,2]", "[[1,2],[3,4]]");
  ASSERT_TRUE(flat.ok() && nested.ok());
  EXPECT_EQ(flat->inputs[0].data, nested->inputs[0].data);
  EXPECT_EQ(nested->inputs[0].data, raw<int16_t>({1, 2, 3, 4}));
}

// As Triton's clients send it.
TEST(Oip, DataMayBeNestedDeeperThanItsShape) {
  const auto flat = parse_data("INT16", "[2,2]", "[1,2,3,4]");
  for (const char* data : {"[[[1],[2]],[[3],[4]]]", "[[[1,2],[3,4]]]", "[[[[1,2,3,4]]]]"}) {
    const auto deep = parse_data("INT16", "[2,2]", data);
    ASSERT_TRUE(deep.ok()) << data << ": " << deep.error().message;
    EXPECT_EQ(deep->inputs[0].data, flat->inputs[0].data) << data;
  }
}

TEST(Oip, EveryDatatypeThatJsonCanCarry) {
  struct Case {
    const char *datatype, *data;
    std::string bytes;
  };
  const Case cases[] = {
      {"BOOL", "[true,false]", raw<uint8_t>({1, 0})},
      {"UINT8", "[0,255]", raw<uint8_t>({0, 255})},
      {"UINT16", "[0,65535]", raw<uint16_t>({0, 65535})},
      {"UINT32", "[0,4294967295]", raw<uint32_t>({0, 4294967295})},
      {"UINT64", "[0,18446744073709551615]", raw<uint64_t>({0, UINT64_MAX})},
      {"INT8", "[-128,127]", raw<int8_t>({-128, 127})},
      {"INT16", "[-32768,32767]", raw<int16_t>({-32768, 32767})},
      {"INT32", "[-2147483648,2147483647]", raw<int32_t>({INT32_MIN, INT32_MAX})},
      {"INT64", "[-9223372036854775808,9223372036854775807]", raw<int64_t>({INT64_MIN, INT64_MAX})},
      {"FP32", "[1,1e-3]", raw<float>({1, 1e-3f})},
      {"FP64", "[1,1e300]", raw<double>({1, 1e300})},
      {"FP32", "[18446744073709551616,-9223372036854775809]",
       raw<float>({18446744073709551616.0f, -9223372036854775808.0f})},
      {"FP64", "[Infinity,100000000000000000000000]", raw<double>({HUGE_VAL, 1e23})},
      {"BYTES", R"(["ab",""])", std::string("\2\0\0\0ab\0\0\0\0", 10)},
  };
  for (const Case& c : cases) {
    const auto r = parse_data(c.datatype, "[1,2]", c.data);
    ASSERT_TRUE(r.ok()) << c.datatype << ": " << r.error().message;
    EXPECT_EQ(r->inputs[0].data, c.bytes) << c.datatype;
  }
}

TEST(Oip, RefusesValuesAndShapesThatDoNotFit) {
  struct Case {
    const char *datatype, *shape, *data, *why;
  };
  const Case cases[] = {
      {"UINT8", "[1,1]", "[256]", "is no UINT8"},
      {"UINT8", "[1,1]", "[-1]", "is no UINT8"},
      {"INT8", "[1,1]", "[128]", "is no INT8"},
      {"INT32", "[1,1]", "[2.5]", "is no INT32"},
      {"INT32", "[1,1]", "[true]", "is no INT32"},
      {"INT32", "[1,1]", R"(["1"])", "is no INT32"},
      {"INT32", "[1,1]", "[NaN]", "is no INT32"},
      {"INT32", "[1,1]", "[NaN]", "(NaN)"},
      {"BYTES", "[1,2]", R"(["a",NaN])", "element 1 (NaN) is no BYTES"},
      {"FP32", "[1,1]", R"(["NaN"])", "is no FP32"},
      {"FP32", "[1,2]", R"([NaN,"NaN"])", "element 1 (\"NaN\") is no FP32"},
      {"FP32", "[1,1]", "[Nan]", "JSON"},
      {"FP32", "[1,1]", R"(["1"])", "is no FP32"},
      {"INT64", "[1,1]", "[9223372036854775808]", "is no INT64"},
      {"BOOL", "[1,1]", "[1]", "is no BOOL"},
      {"FP32", "[1,1]", "[1e39]", "is no FP32"},
      {"FP32", "[1,1]", "[null]", "is no FP32"},
      {"BYTES", "[1,1]", "[1]", "is no BYTES"},
      {"UINT64", "[1,1]", "[18446744073709551616]", "is no UINT64"},
      {"INT64", "[1,1]", "[100000000000000000000]", "is no INT64"},
      {"FP32", "[1,1]", "[1000000000000000000000000000000000000000]", "is no FP32"},
      {"FP32", "[1,2]", "[[[1]]]", "1 elements, not the 2"},
      {"FP32", "[1,2]", "[[[1,2,3]]]", "more than the 2"},
      {"FP32", "[1,1]", "[[[\"1\"]]]", "is no FP32"},
      {"FP16", "[1,1]", "[1]", "binary"},
      {"BF16", "[1,1]", "[1]", "binary"},
      {"FP32", "[1,2]", "[1]", "1 elements, not the 2"},
      {"FP32", "[1,2]", "[1,2,3]", "more than the 2"},
      {"FP32", "[2,2]", "[[1,2],[3]]", "1 elements, not the 2"},
      {"FP32", "[2,2]", "[[1,2]]", "dimension 0"},
      {"FP32", "[2,2]", "[[1,2],[3,4],[5,6]]", "dimension 0"},
      {"FP32", "[2,2]", "[[1,2],3]", "neither flat nor nested"},
      {"FP32", "[1,1]", "1", "must be an array"},
      {"FP32", "[-1,1]", "[1]", "negative"},
      {"FP32", "[1.5,1]", "[1]", "integers"},
      {"FP32", "[4611686018427387904,4]", "[]", "too many"},
      {"FP32", "[1]", "[1]", "the model takes [-1,-1]"},
  };
  for (const Case& c : cases) {
    const auto r = parse_data(c.datatype, c.shape, c.data);
    ASSERT_FALSE(r.ok()) << c.datatype << c.shape << c.data;
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(r.error().message, HasSubstr(c.why));
  }
}

TEST(Oip, RefusesWhatIsNoRequestOfThisModel) {
  const std::string a = kA, b = kB;
  struct Case {
    std::string body;
    const char* why;
  };
  const Case cases[] = {
      {"", "JSON"},
      {"{", "JSON"},
      {"[]", "must be a JSON object"},
      {"{}", "inputs: must be given"},
      {R"({"inputs":3})", "inputs: must be given, as an array"},
      {inputs("7"), "inputs[0]: must be an object"},
      {inputs(a), "'b' is missing"},
      {inputs(a + "," + a), "'a' is given twice"},
      {inputs(a + "," + b + R"(,{"name":"c","datatype":"INT32","shape":[1],"data":[1]})"),
       "the model has 'a', 'b'"},
      {inputs(R"({"name":"a","datatype":"FP32","shape":[1,2],"data":[1,2]},)" + b),
       "datatype FP32, the model takes INT32"},
      {inputs(R"({"name":"a","datatype":"INT32","shape":[1,3],"data":[1,2,3]},)" + b),
       "shape [1,3], the model takes [-1,2]"},
      {inputs(R"({"name":"a","datatype":"INT33","shape":[1,2],"data":[1,2]},)" + b), "no 'INT33'"},
      {inputs(R"({"datatype":"INT32","shape":[1,2],"data":[1,2]})"), "name: must be given"},
      {inputs(R"({"name":"a","datatype":"INT32","shape":[1,2]})"), "give either data or"},
      {inputs(a + "," + b, R"("id":7,)"), "id: must be a string"},
      {inputs(a + "," + b, R"("parameters":[],)"), "parameters: must be an object"},
      {inputs(a + "," + b, R"("parameters":{"binary_data_output":{}},)"), "true or false"},
      {inputs(a + "," + b, R"("id":NaNa,)"), "JSON"},
      {inputs(a + "," + b, R"("id":NaN,)"), "id: must be a string"},
      {inputs(R"({"name":Infinity,"datatype":"INT32","shape":[1,2],"data":[1,2]})"),
       "name: must be given, as a string"},
      {inputs(a + "," + b, R"("parameters":{"binary_data_output":1},)"), "true or false"},
      {inputs(a + "," + b, R"("outputs":[{"name":"z"}],)"), "the model has 'x', 'y'"},
      {inputs(a + "," + b, R"("outputs":[{"name":"x"},{"name":"x"}],)"), "twice"},
      {inputs(a + "," + b, R"("outputs":[{"name":"x","parameters":{"classification":3}}],)"),
       "not supported"},
      {std::string(100, '['), "JSON"},
      {R"({"id":)" + std::string(5000, '[') + std::string(5000, ']') + "}", "JSON"},
  };
  for (const Case& c : cases) {
    const auto r = parse(c.body);
    ASSERT_FALSE(r.ok()) << c.body;
    EXPECT_EQ(r.error().kind, ErrorKind::kInvalid) << c.body;
    EXPECT_THAT(r.error().message, HasSubstr(c.why)) << c.body.substr(0, 200);
  }
}

constexpr char kBinaryA[] =
    R"({"name":"a","datatype":"INT32","shape":[1,2],"parameters":{"binary_data_size":8}})";
constexpr char kBinaryB[] =
    R"({"name":"b","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}})";

TEST(Oip, ReadsBinaryTensorsInTheRequestsOrder) {
  const auto r = parse(inputs(std::string(kBinaryB) + "," + kBinaryA),
                       raw<float>({1, 2}) + raw<int32_t>({3, 4}));
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->inputs[0].data, raw<int32_t>({3, 4}));
  EXPECT_EQ(r->inputs[1].data, raw<float>({1, 2}));
}

TEST(Oip, JsonAndBinaryInputsMix) {
  const auto r = parse(inputs(std::string(kA) + "," + kBinaryB), raw<float>({1, 2}));
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->inputs[0].data, raw<int32_t>({1, 2}));
  EXPECT_EQ(r->inputs[1].data, raw<float>({1, 2}));
}

TEST(Oip, RefusesBinarySectionsThatDoNotAddUp) {
  const std::string both = inputs(std::string(kBinaryA) + "," + kBinaryB);
  struct Case {
    std::string json, binary;
    const char* why;
  };
  const auto sized = [](const char* size) {
    return inputs(
        R"({"name":"a","datatype":"INT32","shape":[1,2],"parameters":{"binary_data_size":)" +
        std::string(size) + "}}");
  };
  const Case cases[] = {
      {both, std::string(15, 'x'), "only 7 bytes of the body are left"},
      {both, std::string(17, 'x'), "1 bytes of the body belong to no input"},
      {both, "x", "only 1 bytes"},
      {sized("4"), std::string(4, 'x'), "has 4 bytes, shape [1,2] of INT32 has 8"},
      {sized("-8"), std::string(8, 'x'), "at least 0"},
      {sized("\"8\""), std::string(8, 'x'), "at least 0"},
      {sized("9223372036854775807"), std::string(8, 'x'), "only 8 bytes"},
      {inputs(std::string(kA) + "," + kB), "x", "belong to no input"},
      {inputs(R"({"name":"a","datatype":"INT32","shape":[1,2],"data":[1,2],)"
              R"("parameters":{"binary_data_size":8}})"),
       std::string(8, 'x'), "give either data or"},
  };
  for (const Case& c : cases) {
    const auto r = parse(c.json, c.binary);
    ASSERT_FALSE(r.ok()) << c.json;
    EXPECT_THAT(r.error().message, HasSubstr(c.why));
  }
}

TEST(Oip, RefusesHeaderLengthsThatAreNone) {
  const std::string body = inputs(std::string(kA) + "," + kB);
  for (const char* length : {"-1", "x", "", "1e3", "99999", "99999999999999999999999", "10 "})
    EXPECT_FALSE(parse_infer(body, length, kModel).ok()) << length;
  EXPECT_TRUE(parse_infer(body, std::to_string(body.size()), kModel).ok());
  EXPECT_FALSE(parse_infer(body, std::to_string(body.size() - 1), kModel).ok());
}

ModelSpec one_input(const std::string& datatype, std::vector<int64_t> shape) {
  return {.inputs = {{"t", datatype, std::move(shape)}}, .outputs = {{"x", "FP32", {-1}}}};
}

TEST(Oip, ARawRequestIsTheOnlyInputItself) {
  const auto fixed = parse_infer(raw<float>({1, 2}), "0", one_input("FP32", {-1, 2}));
  ASSERT_TRUE(fixed.ok()) << fixed.error().message;
  EXPECT_EQ(fixed->inputs[0], (Tensor{"t", Datatype::kFp32, {1, 2}, raw<float>({1, 2})}));
  EXPECT_EQ(fixed->outputs, (std::vector<RequestedOutput>{{"x", true}}));

  const auto open = parse_infer(raw<float>({1, 2, 3}), "0", one_input("FP32", {-1, -1}));
  ASSERT_TRUE(open.ok()) << open.error().message;
  EXPECT_EQ(open->inputs[0].shape, (Shape{1, 3}));

  const auto text = parse_infer("hello", "0", one_input("BYTES", {-1}));
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(bytes_elements(text->inputs[0].data), std::vector<std::string_view>{"hello"});

  EXPECT_FALSE(parse_infer(std::string(9, 'x'), "0", one_input("FP32", {-1, 2})).ok());
  EXPECT_FALSE(parse_infer(std::string(9, 'x'), "0", one_input("FP32", {-1, -1})).ok());
  EXPECT_FALSE(parse_infer(std::string(8, 'x'), "0", one_input("FP32", {-1, -1, -1})).ok());
  EXPECT_FALSE(parse_infer(std::string(8, 'x'), "0", kModel).ok());
}

InferRequest wanting(std::vector<RequestedOutput> outputs) {
  return {.outputs = std::move(outputs)};
}

TEST(Oip, WritesJsonAndEchoesTheId) {
  InferRequest request = wanting({{"x", false}});
  request.id = "a \"quoted\" id";
  const auto e =
      encode_answer({"m", "3", {{"x", Datatype::kInt32, {1, 2}, raw<int32_t>({-1, 7})}}}, request);
  ASSERT_TRUE(e.ok());
  EXPECT_FALSE(e->header_length);
  EXPECT_EQ(e->body, R"({"model_name":"m","model_version":"3","id":"a \"quoted\" id","outputs":[)"
                     R"({"name":"x","datatype":"INT32","shape":[1,2],"data":[-1,7]}]})");
}

TEST(Oip, WritesBinaryOutputsBehindTheJson) {
  const auto e = encode_answer({"m",
                                "1",
                                {{"x", Datatype::kFp32, {1}, raw<float>({1})},
                                 {"y", Datatype::kFp16, {1}, "hh"},
                                 {"z", Datatype::kBool, {2}, std::string("\1\0", 2)}}},
                               wanting({{"x", true}, {"y", true}, {"z", false}}));
  ASSERT_TRUE(e.ok());
  ASSERT_TRUE(e->header_length);
  EXPECT_EQ(e->body.substr(*e->header_length), raw<float>({1}) + "hh");
  EXPECT_EQ(e->body.substr(0, *e->header_length),
            R"({"model_name":"m","model_version":"1","outputs":[)"
            R"({"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}},)"
            R"({"name":"y","datatype":"FP16","shape":[1],"parameters":{"binary_data_size":2}},)"
            R"({"name":"z","datatype":"BOOL","shape":[2],"data":[true,false]}]})");
}

TEST(Oip, NumbersSurviveTheRoundTrip) {
  const std::vector<float> values{
      0.1f, 1e-45f, std::numeric_limits<float>::max(), -0.0f, 3, NAN, INFINITY, -INFINITY};
  const auto e = encode_answer({"m", "1", {{"x", Datatype::kFp32, {1, 8}, raw(values)}}},
                               wanting({{"x", false}}));
  ASSERT_TRUE(e.ok());
  const size_t begin = e->body.find("\"data\":") + 7;
  const auto back =
      parse_data("FP32", "[1,8]", e->body.substr(begin, e->body.find(']', begin) + 1 - begin));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->inputs[0].data, raw(values));
}

TEST(Oip, NotANumberAndInfinityAreBareWordsAsForTriton) {
  const auto e = encode_answer(
      {"m", "1", {{"x", Datatype::kFp64, {3}, raw<double>({NAN, INFINITY, -INFINITY})}}},
      wanting({{"x", false}}));
  ASSERT_TRUE(e.ok());
  EXPECT_THAT(e->body, HasSubstr(R"("data":[NaN,Infinity,-Infinity])"));
  // A string that contains such a word stays as it is, escapes included.
  const auto r = parse(R"({"id":"NaN \" Infinity","inputs":[)" + std::string(kA) +
                       R"(,{"name":"b","datatype":"FP32","shape":[1,2],"data":[-Infinity,NaN]}]})");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->id, "NaN \" Infinity");
  float b[2];
  std::memcpy(b, r->inputs[1].data.data(), sizeof b);
  EXPECT_EQ(b[0], -INFINITY);
  EXPECT_TRUE(std::isnan(b[1]));
}

// Clients write all members that they know, and parameters for other servers.
TEST(Oip, OptionalMembersMayBeNullAndUnknownParametersAnything) {
  const std::string a = kA, b = kB;
  const std::string bodies[] = {
      inputs(a + "," + b, R"("id":null,"parameters":null,"outputs":null,)"),
      inputs(a + "," + b, R"("parameters":{"p":null,"q":{"r":[1]},"s":[{}],"headers":{"a":"b"}},)"),
      inputs(a + "," + b, R"("parameters":{"binary_data_output":null},)"),
      inputs(a + "," + b,
             R"("outputs":[{"name":"x","parameters":{"binary_data":null,"classification":null}},)"
             R"({"name":"y","parameters":null}],)"),
      inputs(R"({"name":"a","datatype":"INT32","shape":[1,2],"data":[1,2],)"
             R"("parameters":{"binary_data_size":null,"more":{}}},)" +
             b),
  };
  for (const std::string& body : bodies) {
    const auto r = parse(body);
    ASSERT_TRUE(r.ok()) << body << ": " << r.error().message;
    EXPECT_FALSE(r->id);
    EXPECT_EQ(r->outputs, (std::vector<RequestedOutput>{{"x", false}, {"y", false}}));
  }
}

TEST(Oip, SaysSoWhenJsonCannotCarryAnOutput) {
  const auto json = [](Tensor t) {
    return encode_answer({"m", "1", {std::move(t)}}, wanting({{"x", false}}));
  };
  EXPECT_FALSE(json({"x", Datatype::kFp16, {1}, "hh"}).ok());
  std::string data;
  append_bytes_element(data, "\xff\xfe");
  EXPECT_THAT(json({"x", Datatype::kBytes, {1}, data}).error().message, HasSubstr("binary_data"));
}

}  // namespace
}  // namespace sluice::runtime
