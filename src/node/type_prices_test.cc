#include "node/type_prices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::node {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TypePrices, AreReadAndRefusedWithWhatIsAllowed) {
  EXPECT_EQ(parse_type_price("cpu/500m=0.02")->first.name, "cpu/500m");
  EXPECT_DOUBLE_EQ(parse_type_price("NVIDIA A100-SXM4-40GB=3")->second, 3);
  EXPECT_EQ(parse_type_price("a=b=1")->first.name, "a=b");
  EXPECT_EQ(parse_type_price("cpu/500m").error().message,
            "\"cpu/500m\" is not TYPE=PRICE, as cpu/500m=0.02");
  for (const char* wrong : {"=1", "", "x"}) EXPECT_FALSE(parse_type_price(wrong).ok()) << wrong;
  for (const char* wrong : {"x=", "x=-1", "x=nan", "x=inf", "x=1e7", "x=1 ", "x=two"})
    EXPECT_EQ(parse_type_price(wrong).error().message,
              "in \"" + std::string(wrong) + "\" the price is no number from 0 to 1000000");
}

TEST(TypePrices, RuleOverThePriceOfTheirDevicesAlone) {
  std::vector<LocalDevice> devices{
      {{.id = "cpu0", .millicores = 500, .price_per_hour = 0.02}, {}},
      {{.id = "cuda0", .kind = DeviceKind::kCuda, .model = "A100", .price_per_hour = 2.5}, {}},
      {{.id = "cuda1", .kind = DeviceKind::kCuda, .model = "T4", .price_per_hour = 2.5}, {}}};
  EXPECT_THAT(set_prices(devices, {{{"T4"}, 0.4}, {{"H100"}, 6}}), ElementsAre(DeviceType{"H100"}));
  EXPECT_EQ(devices[0].device.price_per_hour, 0.02);
  EXPECT_EQ(devices[1].device.price_per_hour, 2.5);
  EXPECT_EQ(devices[2].device.price_per_hour, 0.4);
  EXPECT_THAT(set_prices(devices, {}), IsEmpty());
}

}  // namespace
}  // namespace sluice::node
