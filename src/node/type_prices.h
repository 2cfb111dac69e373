// Prices by type of device, as `--price TYPE=PRICE` states them. They override the price per core
// and per GPU. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "node/local_device.h"

namespace sluice::node {

using TypePrices = std::map<DeviceType, double>;  // of a whole device, per hour

// Reads "cpu/500m=0.02". Returns kInvalid for no type, or a price that is no number from 0 to
// 1000000.
Result<TypePrices::value_type> parse_type_price(std::string_view text);

// Gives each device its type's price. Returns the types that no device has.
std::vector<DeviceType> set_prices(std::vector<LocalDevice>& devices, const TypePrices& prices);

}  // namespace sluice::node
