#include "policy/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/words.h"
#include "model/quantity.h"

namespace sluice::policy {
namespace settings_detail {
namespace {

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

// The kinds of settings: how each text is read, and written.
Result<double> read(const double&, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc() || rest != end || !std::isfinite(value))
    return Error{ErrorKind::kInvalid, "\"" + text + "\" is not a number"};
  return value;
}
Result<int> read(const int&, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end)
    return Error{ErrorKind::kInvalid, "\"" + text + "\" is not a whole number"};
  return value;
}
Result<bool> read(const bool&, const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  return Error{ErrorKind::kInvalid, "\"" + text + "\" is not true or false"};
}
Result<Share> read(const Share&, const std::string& text) {
  return parse_share(text);
}
Result<Nanos> read(const Nanos&, const std::string& text) {
  return parse_duration(text);
}

std::string write(double value) {
  return number(value);
}
std::string write(int value) {
  return std::to_string(value);
}
std::string write(bool value) {
  return value ? "true" : "false";
}
std::string write(Share value) {
  return format_share(value);
}
std::string write(Nanos value) {
  return format_duration(value);
}

// In the unit of the bounds.
double magnitude(double value) {
  return value;
}
double magnitude(int value) {
  return value;
}
double magnitude(Share value) {
  return value.permille;
}
double magnitude(Nanos value) {
  return seconds(value);
}

std::string bound_text(const double&, double bound) {
  return number(bound);
}
std::string bound_text(const int&, double bound) {
  return number(bound);
}
std::string bound_text(const bool&, double) {
  return "";
}
std::string bound_text(const Share&, double bound) {
  return write(Share{static_cast<int>(bound)});
}
std::string bound_text(const Nanos&, double bound) {
  return write(from_seconds(bound));
}

template <class V>
std::string allowed(const V& value, const Bound& bound) {
  if constexpr (std::is_same_v<V, bool>) return "true or false";
  return bound_text(value, bound.least) + " to " + bound_text(value, bound.most);
}

}  // namespace

Result<void> assign(const Bound& bound, const std::string& text) {
  return std::visit(
      [&](auto* slot) -> Result<void> {
        const auto parsed = read(*slot, text);
        const std::string name(bound.name);
        if (!parsed.ok())
          return Error{ErrorKind::kInvalid, name + ": " + parsed.error().message +
                                                "; allowed are " + allowed(*slot, bound)};
        if constexpr (!std::is_same_v<decltype(slot), bool*>)
          if (magnitude(*parsed) < bound.least || magnitude(*parsed) > bound.most)
            return Error{ErrorKind::kInvalid,
                         name + ": " + text + " is not allowed; " + allowed(*slot, bound) + " are"};
        *slot = *parsed;
        return {};
      },
      bound.slot);
}

double magnitude(const Bound& bound) {
  return std::visit([](const auto* slot) { return magnitude(*slot); }, bound.slot);
}

SettingInfo info(const Bound& bound) {
  return std::visit(
      [&](const auto* slot) {
        return SettingInfo{std::string(bound.name), write(*slot), allowed(*slot, bound),
                           std::string(bound.meaning)};
      },
      bound.slot);
}

}  // namespace settings_detail

Result<Settings> Settings::with(const SettingTexts& texts) const {
  Settings changed = *this;
  const std::vector<settings_detail::Bound> bounds = changed.held_->bounds();
  std::vector<std::string> names;
  for (const settings_detail::Bound& b : bounds) names.emplace_back(b.name);
  for (const auto& [name, text] : texts) {
    const auto bound = std::ranges::find(bounds, name, &settings_detail::Bound::name);
    if (bound == bounds.end())
      return Error{ErrorKind::kInvalid, names.empty()
                                            ? name + ": this policy has no settings"
                                            : name + " is no setting of this policy" +
                                                  did_you_mean(name, names) + "; there are " +
                                                  listed(names, names.size())};
    SLUICE_TRY(settings_detail::assign(*bound, text));
  }
  return changed;
}

Result<void> Settings::check() const {
  const std::vector<settings_detail::Bound> bounds = held_->bounds();
  for (const SettingOrder& order : held_->orders()) {
    const auto low = std::ranges::find(bounds, order.low, &settings_detail::Bound::name);
    const auto high = std::ranges::find(bounds, order.high, &settings_detail::Bound::name);
    if (settings_detail::magnitude(*low) <= settings_detail::magnitude(*high)) continue;
    const std::string name(order.high);
    return Error{ErrorKind::kInvalid, std::string(order.low) + ": " +
                                          settings_detail::info(*low).value + " is above " + name +
                                          ", which is " + settings_detail::info(*high).value +
                                          "; at most " + name + " is allowed"};
  }
  return {};
}

std::vector<SettingInfo> Settings::list() const {
  std::vector<SettingInfo> all;
  for (const settings_detail::Bound& b : held_->bounds()) all.push_back(settings_detail::info(b));
  return all;
}

}  // namespace sluice::policy
