#include "trace/latency_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/support/folder.h"

namespace sluice::trace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two models; of `b` the nodes do not stand in the order in which they run.
const std::map<std::string, std::string> kFolder = {
    {"latency_ms.csv",
     "model,batch,sm_pct,quota_pct,latency_ms\n"
     "b,1,100,50,7\nb,1,5,100,9.5\na,8,100,100,3\n"},
    {"operators.csv",
     "model,batch,node_index,exec_order,layer,kernel_h,stride_h,groups,in_shape_b1,out_shape_b1,"
     "macs_b1,params,t_sm100_ms,t_sm5_ms\n"
     "a,1,0,0,dense,,,,1x512,1x10,5120,5130,0.1,0.4\n"
     "b,1,0,2,relu6,,,,1x8x4x4,1x8x4x4,0,0,0.02,\n"
     "b,1,1,1,conv2d,3,2,1,1x3x8x8,1x8x4x4,3456,224,0.2,0.9\n"
     "b,1,2,,transpose,,,,,,,,,\n"
     "b,2,1,1,conv2d,3,2,1,1x3x8x8,1x8x4x4,3456,224,0.3,1.9\n"},
    {"edges.csv", "model,src,dst\nb,1,0\n"},
    {"graph_features.csv", "model,family\na,first\nb,second\n"},
    {"split_seen.csv", "model,batch,sm_pct,quota_pct,split\nb,1,5,100,test\na,8,100,100,train\n"}};

class LatencyDataTest : public testing::Test {
 protected:
  Result<LatencyData> read(std::map<std::string, std::string> files) {
    for (const auto& [name, text] : files) std::ofstream(folder_.path + "/" + name) << text;
    return read_latency_data(folder_.path);
  }
  // The error of the folder with one text in one file replaced.
  std::string error_with(const std::string& file, const std::string& from, const std::string& to) {
    auto files = kFolder;
    std::string& text = files[file];
    EXPECT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    const auto data = read(files);
    return data.ok() ? "" : data.error().message;
  }
  TemporaryFolder folder_;
};

TEST_F(LatencyDataTest, ModelsWithTheirOperatorsInTheOrderInWhichTheyRun) {
  const auto data = read(kFolder);
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_THAT(data->sms, ElementsAre(Share{50}, Share{1000}));
  EXPECT_THAT(data->splits, ElementsAre("test", "train"));
  ASSERT_EQ(data->models.size(), 2u);
  const LatencyModel& b = data->models[1];
  EXPECT_EQ(b.family, "second");
  ASSERT_EQ(b.graph.operators.size(), 2u);
  EXPECT_EQ(b.graph.operators[0], (Operator{.type = "conv2d",
                                            .in = {1, 3, 8, 8},
                                            .out = {1, 8, 4, 4},
                                            .macs = 3456,
                                            .parameters = 224,
                                            .kernel = 3,
                                            .stride = 2,
                                            .groups = 1}));
  EXPECT_EQ(b.graph.operators[1].type, "relu");
  EXPECT_THAT(b.graph.operators[1].from, ElementsAre(0));
  EXPECT_THAT(b.operator_ms, ElementsAre(ElementsAre(0.9, 0.2), ElementsAre(0, 0.02)));
  EXPECT_THAT(b.points, ElementsAre(LatencyPoint{{1, Share{50}, kWhole}, 9.5, 0},
                                    LatencyPoint{{1, kWhole, Share{500}}, 7, -1}));
}

TEST_F(LatencyDataTest, EdgesAndSplitsMayBeMissing) {
  auto files = kFolder;
  files.erase("edges.csv");
  files.erase("split_seen.csv");
  const auto data = read(files);
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->models[0].points[0].split, -1);
}

TEST_F(LatencyDataTest, WhatIsWrongIsSaidWithItsPlace) {
  const struct {
    const char *file, *from, *to, *said;
  } cases[] = {
      {"latency_ms.csv", "latency_ms", "ms", "column"},
      {"latency_ms.csv", "9.5", "nan", "latency_ms"},
      {"latency_ms.csv", "9.5", "-1", "latency_ms"},
      {"latency_ms.csv", "9.5", "0", "latency_ms"},
      {"latency_ms.csv", "b,1,5,100,9.5", "b,1,100,50,9.5", "twice"},
      {"latency_ms.csv", "a,8", "c,8", "is not in graph_features.csv"},
      {"latency_ms.csv", "a,8", "a,1.5", "whole number"},
      {"operators.csv", "1x512", "1xy", "is no shape"},
      {"operators.csv", "5120,5130", "-5,5130", "macs_b1"},
      {"operators.csv", "a,1,0,0", "b,1,7,7", "a has no operators"},
      {"graph_features.csv", "b,second", "a,second", "twice"},
      {"edges.csv", "b,1,0", "b,1,x", "dst"},
      {"split_seen.csv", "b,1,5", "b,1,0", "sm_pct"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(error_with(c.file, c.from, c.to), HasSubstr(c.said)) << c.file << ": " << c.to;
  EXPECT_THAT(read_latency_data(folder_.path + "/none").error().message,
              HasSubstr("has neither graph_features.csv nor graph_features.csv.gz"));
}

}  // namespace
}  // namespace sluice::trace
