#include "predict/work_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace sluice::predict {
namespace {

// Weights under which an operator's device time is macs · b ÷ s nanoseconds, and each costs a host
// 0.5 ms.
WorkWeights plain_weights() {
  constexpr size_t kTypes = std::size(kOperatorTypes);
  WorkWeights w;
  w.network = {.inputs = kOperatorFeatures,
               .hidden = 1,
               .first = std::vector<double>(kOperatorFeatures, 0),
               .first_bias = {0},
               .second = {0},
               .second_bias = {0},
               .last = {0},
               .direct = std::vector<double>(kOperatorFeatures, 0),
               .bias = std::log(1e-6)};
  w.network.direct[kTypes] = 1;       // log(1 + MACs) + log b
  w.network.direct[kTypes + 6] = -1;  // log s
  w.issue.assign(kTypes, std::log(0.5));
  w.throttle = {{Share{100}, std::log(20.0)}, {Share{500}, std::log(3.0)}, {kWhole, 0}};
  w.sharpness = 1000;
  w.stiffness = {1e-3, 1e-3};
  return w;
}

Operator convolution(int64_t macs) {
  return {.type = "conv2d", .in = {1, 8}, .out = {1, 8}, .macs = macs, .parameters = 10};
}

// 10 ms of device time in all at batch 1 with the whole device; 2 ms of host time.
OperatorGraph network_of_four() {
  return {.operators = {convolution(4'000'000), convolution(2'000'000), convolution(2'000'000),
                        convolution(2'000'000)}};
}

TEST(WorkModel, TheSlowerSideCounts) {
  const WorkWeights w = plain_weights();
  const WorkEstimate e(w, network_of_four());
  EXPECT_NEAR(e.device_ms(1, kWhole), 10, 0.01);
  EXPECT_NEAR(e.host_ms(kWhole), 2, 0.01);
  EXPECT_NEAR(e.ms({1, kWhole, kWhole}), 10, 0.1);
  EXPECT_NEAR(e.ms({4, Share{500}, kWhole}), 80, 0.5);
  EXPECT_NEAR(e.ms({1, kWhole, Share{100}}), 40, 0.5);  // the throttled host
  EXPECT_NEAR(e.ms({1, kWhole, Share{500}}), 10, 0.1);  // 6 ms of host time are hidden
}

TEST(WorkModel, ManyAtOnceAreAsOneByOne) {
  const WorkWeights w = plain_weights();
  const WorkEstimate e(w, network_of_four());
  const std::vector<Configuration> all = {
      {1, kWhole, kWhole}, {1, kWhole, Share{300}}, {8, Share{300}, Share{300}}};
  const std::vector<double> ms = e.ms(all);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_DOUBLE_EQ(ms[i], e.ms(all[i]));
}

// 10 GMACs a second, 3 ms for each thousand operators, on a device whose time a quota shares out.
TEST(WorkModel, RatesAreForDevicesOfWhichAQuotaGivesAPart) {
  WorkWeights w = plain_weights();
  w.rates = {100, 0, 0, 0, 0, 3000};
  w.issue.assign(std::size(kOperatorTypes), -30);
  const WorkEstimate e(w, network_of_four());
  EXPECT_NEAR(e.ms({1, kWhole, kWhole}), 1 + 12, 1e-6);
  EXPECT_NEAR(e.ms({4, kWhole, kWhole}), 4 + 12, 1e-6) << "each batch runs the operators once";
  for (const Configuration& half :
       {Configuration{1, {500}, kWhole}, {1, kWhole, {500}}, {1, {250}, {2000}}})
    EXPECT_NEAR(e.ms(half), 26, 1e-6);
  EXPECT_NEAR(e.ms(std::vector<Configuration>{{1, kWhole, {500}}})[0], 26, 1e-6);
}

TEST(WorkModel, AProfileCorrectsTheDevice) {
  const WorkWeights w = plain_weights();
  ShortProfile p;  // three times as slow as estimated, and better with more sm
  for (const int s : {100, 300, 1000})
    p.alone.push_back({Share{s}, 30 * std::pow(s / 1000.0, -0.8)});
  const WorkEstimate e(w, network_of_four(), &p);
  EXPECT_NEAR(e.device_ms(1, kWhole), 30, 1);
  EXPECT_NEAR(e.device_ms(1, Share{100}), 189, 6);
  EXPECT_NEAR(e.device_ms(2, kWhole), 60, 2);
}

TEST(WorkModel, AProfileReplacesTheHost) {
  const WorkWeights w = plain_weights();
  ShortProfile p;
  for (const int s : {500, 1000}) p.alone.push_back({Share{s}, 40});
  p.quotas = {{Share{200}, 250}, {Share{500}, 90}, {kWhole, 40}};
  const WorkEstimate e(w, network_of_four(), &p);
  EXPECT_NEAR(e.host_ms(kWhole), 40, 1e-9);
  EXPECT_NEAR(e.host_ms(Share{500}), 90, 1e-9);
  EXPECT_GT(e.host_ms(Share{300}), 90);
  EXPECT_LT(e.host_ms(Share{300}), 250);
  EXPECT_GT(e.host_ms(Share{100}), 250);  // grows as the throttle does
}

TEST(WorkModel, ADeviceBoundModelsTimesHideItsHost) {
  const WorkWeights w = plain_weights();
  ShortProfile p;
  p.alone = {{Share{100}, 100}, {kWhole, 10}};
  p.quotas = {{Share{200}, 52}, {kWhole, 40}};  // batch 4: 40 ms of the device
  const WorkEstimate e(w, network_of_four(), &p);
  EXPECT_NEAR(e.ms({1, kWhole, kWhole}), 10, 0.3);  // no more than alone
}

TEST(WorkModel, TheSameOperatorsCountTogether) {
  const auto all = counted(network_of_four());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].count + all[1].count, 4);
}

TEST(WorkModel, AnUnknownTypeIsAnother) {
  Operator o = convolution(1000);
  o.type = "conv9d";
  EXPECT_EQ(OperatorFeatures(o).at(0, 0)[std::size(kOperatorTypes) - 1], 1);
}

}  // namespace
}  // namespace sluice::predict
