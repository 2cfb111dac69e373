#include "model/quantity.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  int64_t size;
};

constexpr Unit kDurations[] = {
    {"h", 3'600'000'000'000}, {"m", 60'000'000'000}, {"s", 1'000'000'000},
    {"ms", 1'000'000},        {"us", 1'000},         {"ns", 1}};
constexpr Unit kBytes[] = {{"Ti", 1LL << 40},
                           {"Gi", 1LL << 30},
                           {"Mi", 1LL << 20},
                           {"Ki", 1LL << 10},
                           {"T", 1'000'000'000'000},
                           {"G", 1'000'000'000},
                           {"M", 1'000'000},
                           {"k", 1'000},
                           {"B", 1}};
constexpr int kBinaryUnits = 4;

struct Number {
  double value;
  std::string_view unit;
};

// "1.5s" → 1.5 and "s". Nothing for what does not begin with a finite, non-negative number.
std::optional<Number> split(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  return Number{value, text.substr(end - text.data())};
}

// Products beyond this would not fit in 63 bits.
constexpr double kLargest = 9.2e18;

template <size_t N>
std::optional<int64_t> in_units(const Number& n, const Unit (&units)[N]) {
  for (const Unit& u : units) {
    if (u.name != n.unit) continue;
    const double product = std::round(n.value * static_cast<double>(u.size));
    if (product > kLargest) return std::nullopt;
    return static_cast<int64_t>(product);
  }
  return std::nullopt;
}

Error not_a(std::string_view what, std::string_view text) {
  return {ErrorKind::kInvalid, "\"" + std::string(text) + "\" is not " + std::string(what)};
}

}  // namespace

Result<Nanos> parse_duration(std::string_view text) {
  const std::optional<Number> n = split(text);
  if (n && n->unit.empty() && n->value == 0) return Nanos(0);
  const std::optional<int64_t> ns = n ? in_units(*n, kDurations) : std::nullopt;
  if (!ns) return not_a("a duration with a unit: ns, us, ms, s, m or h, such as 150ms", text);
  return Nanos(*ns);
}

std::string format_duration(Nanos d) {
  if (d.count() == 0) return "0s";
  for (const Unit& u : kDurations)
    if (d.count() % u.size == 0) return std::to_string(d.count() / u.size) + std::string(u.name);
  return std::to_string(d.count()) + "ns";
}

Result<Share> parse_share(std::string_view text) {
  const Error wrong =
      not_a("a share: a percentage from 0.1% to 100%, or a fraction from 0.001 to 1", text);
  const std::optional<Number> n = split(text);
  if (!n || (!n->unit.empty() && n->unit != "%")) return wrong;
  const double permille = n->value * (n->unit == "%" ? 10 : 1000);
  if (permille < 0.999999 || permille > 1000.000001) return wrong;
  if (std::abs(permille - std::round(permille)) > 1e-6)
    return not_a("a whole number of thousandths, such as 12.5%", text);
  return Share{static_cast<int>(std::round(permille))};
}

std::string format_share(Share s) {
  std::string text = std::to_string(s.permille / 10);
  if (s.permille % 10 != 0) text += "." + std::to_string(s.permille % 10);
  return text + "%";
}

Result<Bytes> parse_bytes(std::string_view text) {
  const std::optional<Number> n = split(text);
  if (n && n->unit.empty() && n->value == 0) return Bytes{0};
  const std::optional<int64_t> bytes = n ? in_units(*n, kBytes) : std::nullopt;
  if (!bytes)
    return not_a("an amount of memory with a unit: B, k, M, G, T, Ki, Mi, Gi or Ti, such as 512Mi",
                 text);
  return *bytes;
}

std::string format_bytes(Bytes b) {
  for (const Unit& u : std::span(kBytes).first(kBinaryUnits))
    if (b > 0 && b % u.size == 0) return std::to_string(b / u.size) + std::string(u.name);
  return b == 0 ? "0" : std::to_string(b) + "B";
}

}  // namespace sluice
