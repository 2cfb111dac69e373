// `sluice inspect` and `sluice predict` as their user starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/folder.h"
#include "tests/support/shell.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const std::string kSluice = SLUICE_PROGRAM;
const std::string kResnet = SLUICE_MODELS "/resnet50.pt";

json output_of(const std::string& words) {
  const Ran ran = run(kSluice + " -o json " + words);
  EXPECT_EQ(ran.code, 0) << ran.said;
  json parsed = json::parse(ran.said, nullptr, false);
  EXPECT_FALSE(parsed.is_discarded()) << ran.said;
  return parsed;
}

// Its published size: 4.09 GMACs, 25.6 M parameters, 53 convolutions and a dense layer.
TEST(Inspect, CountsWhatResnet50Computes) {
  const json found = output_of("inspect " + kResnet);
  double macs = 0, parameters = 0;
  std::map<std::string, int> count;
  for (const json& o : found["graph"]["operators"]) {
    macs += o.value("macs", 0.0);
    parameters += o.value("parameters", 0.0);
    ++count[o["type"].get<std::string>()];
  }
  EXPECT_NEAR(macs, 4.09e9, 0.02e9);
  EXPECT_NEAR(parameters, 25.6e6, 0.2e6);
  EXPECT_EQ(count["conv2d"], 53);
  EXPECT_EQ(count["dense"], 1);
  EXPECT_EQ(count["add"], 16);
  EXPECT_EQ(count["other"], 0);
  EXPECT_THAT(run(kSluice + " inspect " + kResnet).said, HasSubstr("conv2d"));
}

// Layers that are one operator each: their work is that of their products, or they are named.
const std::string kLayers = R"(
import sys, torch
from torch import nn
class F(nn.Module):
  def forward(self, x): return torch.fft.fft2(x).abs()
class E(nn.Module):
  def forward(self, x): return torch.einsum('bij,bkj->bik', x, x)
class A(nn.Module):
  def forward(self, x): return nn.functional._scaled_dot_product_attention(x, x, x)[0]
layers = {
    'lstm': (nn.LSTM(64, 32, batch_first=True), (1, 10, 64)),
    'transposed': (nn.ConvTranspose2d(8, 4, 4, 2, 1), (1, 8, 16, 16)),
    'encoder': (nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), (1, 10, 64)),
    'attention': (A(), (1, 10, 64)), 'einsum': (E(), (1, 10, 64)), 'fft': (F(), (1, 10, 64))}
for name, (module, shape) in layers.items():
  with torch.no_grad():
    torch.jit.trace(module.eval(), torch.zeros(shape)).save(f'{sys.argv[1]}/{name}.pt')
)";

TEST(Inspect, LayersThatAreOneOperatorCountWhatTheyCompute) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/layers.py") << kLayers;
  const Ran made = run("/usr/bin/python3 " + folder.path + "/layers.py " + folder.path);
  ASSERT_EQ(made.code, 0) << made.said;
  const auto graph = [&](const std::string& name, const std::string& dims) -> json {
    return output_of("inspect " + folder.path + "/" + name + ".pt --input x:FP32:" + dims)["graph"];
  };
  const auto macs = [&](const std::string& name, const std::string& dims) {
    int64_t sum = 0;
    const json all = graph(name, dims);
    for (const json& o : all["operators"]) sum += o.value("macs", int64_t{0});
    return sum;
  };
  EXPECT_EQ(macs("lstm", "-1,10,64"), 10 * (128 * 64 + 128 * 32));
  EXPECT_EQ(macs("transposed", "-1,8,16,16"), 8 * 16 * 16 * 4 * 4 * 4);
  EXPECT_EQ(macs("encoder", "-1,10,64"), 10 * (4 * 64 * 64 + 2 * 64 * 128) + 2 * 10 * 10 * 64);
  EXPECT_EQ(macs("attention", "-1,10,64"), 2 * 10 * 10 * 64);
  EXPECT_EQ(macs("einsum", "-1,10,64"), 10 * 10 * 64);
  EXPECT_EQ(graph("fft", "-1,10,64")["uncounted"], json::array({"aten::fft_fft2"}));
  const std::string fft = folder.path + "/fft.pt --input x:FP32:";
  EXPECT_THAT(run(kSluice + " predict " + fft + "-1,10,64").said,
              HasSubstr("without aten::fft_fft2, whose work is not known: it takes longer"));
  const Ran open = run(kSluice + " predict " + fft + "-1,-1,64");
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.said, HasSubstr("dimension 2 of input 'x' is variable, and the work depends on "
                                   "it; state it, as in --input x:FP32:-1,128,64"));
}

TEST(Inspect, ABatchMultipliesTheWork) {
  const json one = output_of("inspect " + kResnet),
             four = output_of("inspect " + kResnet + " --batch 4");
  const json &a = one["graph"]["operators"][0], &b = four["graph"]["operators"][0];
  EXPECT_EQ(b["macs"].get<int64_t>(), 4 * a["macs"].get<int64_t>());
  EXPECT_EQ(b["parameters"], a["parameters"]);
}

TEST(Inspect, WhatIsNoModelIsSaid) {
  const TemporaryFolder folder;
  std::ofstream(folder.path + "/none.pt") << "not a model";
  const Ran ran = run(kSluice + " inspect " + folder.path + "/none.pt");
  EXPECT_EQ(ran.code, 2) << ran.said;
  EXPECT_THAT(ran.said, HasSubstr("none.pt"));
}

TEST(Predict, MoreQuotaIsNeverSlower) {
  const json all = output_of("predict " + kResnet + " --all");
  std::map<std::tuple<int, double, double>, double> ms;
  for (const json& p : all) ms[{p["batch"], p["sm_pct"], p["quota_pct"]}] = p["latency_ms"];
  EXPECT_EQ(ms.size(), 250u);
  for (const auto& [at, one] : ms) {
    EXPECT_GT(one, 0.1);
    EXPECT_LT(one, 60'000);
    const auto [batch, sm, quota] = at;
    const auto more = ms.find({batch, sm, quota + 20});
    if (more == ms.end()) continue;
    EXPECT_LE(more->second, one * 1.001);
  }
  EXPECT_LT((ms[{1, 100, 100}]), (ms[{16, 10, 100}]));
}

TEST(Predict, DrawsAHeatMap) {
  const TemporaryFolder folder;
  const std::string picture = folder.path + "/map.svg";
  const auto on_cpu = [](const char* quota) {
    return output_of("predict " + kResnet + " --device cpu/800m --quota " + quota)["latency_ms"]
        .get<double>();
  };
  EXPECT_NEAR(on_cpu("50"), 2 * on_cpu("100"), 1) << "a CPU is shared out by time";
  const Ran ran = run(kSluice + " predict " + kResnet + " --batch 4 --sm 50 --picture " + picture);
  EXPECT_EQ(ran.code, 0) << ran.said;
  EXPECT_THAT(ran.said, HasSubstr("for a batch of 4"));
  std::ostringstream text;
  text << std::ifstream(picture).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("</svg>"));
}

// Twelve models of three families, whose latency is 2 ms an operator of the host, or 1 ms a GMAC of
// the device.
void write_latencies(const std::string& folder) {
  std::ofstream latency(folder + "/latency_ms.csv"), operators(folder + "/operators.csv"),
      features(folder + "/graph_features.csv"), splits(folder + "/split_seen.csv");
  latency << "model,batch,sm_pct,quota_pct,latency_ms\n";
  splits << "model,batch,sm_pct,quota_pct,split\n";
  features << "model,family\n";
  operators << "model,batch,node_index,exec_order,layer,kernel_h,stride_h,groups,in_shape_b1,out_"
               "shape_b1,"
               "macs_b1,params,t_sm10_ms,t_sm50_ms,t_sm100_ms\n";
  for (int m = 0; m < 12; ++m) {
    const std::string name = "m" + std::to_string(m);
    features << name << ",f" << m % 3 << "\n";
    const int layers = 2 + m % 4;
    const double gmacs = 1 + m;  // of each
    const auto alone = [&](double s) { return std::max(2.0, gmacs / s); };
    for (int i = 0; i < layers; ++i)
      operators << name << ",1," << i << "," << i << ",conv2d,3,1,1,1x64x56x56,1x64x56x56,"
                << static_cast<int64_t>(gmacs * 1e9) << ",36928," << alone(0.1) << "," << alone(0.5)
                << "," << alone(1) << "\n";
    for (const int batch : {1, 2, 4})
      for (const int sm : {10, 50, 100})
        for (const int quota : {20, 40, 60, 80, 100}) {
          const double ms = layers * std::max(2.0 * 100 / quota, gmacs * batch * 100 / sm);
          const std::string at = name + "," + std::to_string(batch) + "," + std::to_string(sm) +
                                 "," + std::to_string(quota) + ",";
          latency << at << ms << "\n";
          splits << at << ((m + batch + sm + quota / 20) % 5 == 0 ? "test" : "train") << "\n";
        }
  }
}

TEST(Predict, LearnsFromAFolderAndIsJudgedByIt) {
  const TemporaryFolder folder;
  write_latencies(folder.path);
  const std::string weights = folder.path + "/weights.json", again = folder.path + "/again.json";
  const std::string train =
      kSluice + " predict train --data " + folder.path + " --device test --passes 150 --out ";
  EXPECT_EQ(run(train + weights).code, 0);
  EXPECT_EQ(run(train + again).code, 0);
  EXPECT_EQ(run("cmp " + weights + " " + again).code, 0) << "the same seed, other weights";
  const json rows = output_of("predict eval --data " + folder.path + " --weights " + weights);
  std::map<std::string, double> mape;
  for (const json& r : rows) mape[r["predictor"]] = r["mape"];
  EXPECT_LT(mape["work+profile"], 40);  // so few passes teach little
  EXPECT_LT(mape["work+profile"], mape["operators"]);
  EXPECT_LT(mape["work+measured"], 0.7 * mape["work+profile"]);
}

TEST(Predict, BadDataIsSaidAndNothingIsWritten) {
  const TemporaryFolder folder;
  write_latencies(folder.path);
  std::ofstream(folder.path + "/latency_ms.csv", std::ios::app) << "m0,1,10,30,nan\n";
  const Ran ran = run(kSluice + " predict train --data " + folder.path + " --device test --out " +
                      folder.path + "/weights.json");
  EXPECT_EQ(ran.code, 2) << ran.said;
  EXPECT_THAT(ran.said, HasSubstr("latency_ms.csv:"));
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/weights.json"));
  EXPECT_THAT(run(kSluice + " predict eval --data " + folder.path + " --device A100").said,
              HasSubstr("there are no weights of 'A100'"));
}

}  // namespace
}  // namespace sluice
