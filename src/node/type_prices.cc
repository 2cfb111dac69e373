#include "node/type_prices.h"

#include <charconv>

namespace sluice::node {
namespace {

constexpr double kHighestPrice = 1e6;

}  // namespace

// A type's name may hold "=": the last one counts.
Result<TypePrices::value_type> parse_type_price(std::string_view text) {
  const size_t equals = text.rfind('=');
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (equals == std::string_view::npos || equals == 0)
    return Error{ErrorKind::kInvalid, quoted + " is not TYPE=PRICE, as cpu/500m=0.02"};
  double price = 0;
  const char* const end = text.data() + text.size();
  const auto [at, fault] = std::from_chars(text.data() + equals + 1, end, price);
  if (fault != std::errc() || at != end || !(price >= 0 && price <= kHighestPrice))
    return Error{ErrorKind::kInvalid, "in " + quoted + " the price is no number from 0 to 1000000"};
  return TypePrices::value_type{{std::string(text.substr(0, equals))}, price};
}

std::vector<DeviceType> set_prices(std::vector<LocalDevice>& devices, const TypePrices& prices) {
  TypePrices unused = prices;
  for (LocalDevice& d : devices) {
    const DeviceType type = type_of(d.device);
    const auto price = prices.find(type);
    if (price == prices.end()) continue;
    d.device.price_per_hour = price->second;
    unused.erase(type);
  }
  std::vector<DeviceType> types;
  for (const auto& [type, price] : unused) types.push_back(type);
  return types;
}

}  // namespace sluice::node
