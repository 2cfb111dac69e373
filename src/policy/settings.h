// Settings: a policy's numbers as names and texts, so that a user can read and change them. A
// policy keeps a plain struct with its defaults and a table of its fields; Settings holds any of
// these structs.
//
//   struct KpaSettings {
//     double target = 0.7;
//     Nanos stable = Seconds(60);
//     static std::span<const Setting<KpaSettings>> settings();
//   };
//
// A plain value, not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/result.h"
#include "model/slice.h"

namespace sluice::policy {

// A user's texts: "0.8", "10s", "20%", "true", by the setting's name.
using SettingTexts = std::map<std::string, std::string>;

// One setting of a policy's struct T. The bounds are inclusive: of a duration in seconds, of a
// share in permille.
template <class T>
struct Setting {
  std::string_view name;
  std::variant<double T::*, int T::*, bool T::*, Share T::*, Nanos T::*> field;
  double least = 0, most = 0;
  std::string_view meaning;
};

// Two settings of a policy's struct T; the first must be at most the second. T lists such pairs as
// `kOrders`, if it has any.
struct SettingOrder {
  std::string_view low, high;
};

// A setting for people.
struct SettingInfo {
  std::string name, value, allowed, meaning;
};

namespace settings_detail {
using Slot = std::variant<double*, int*, bool*, Share*, Nanos*>;
struct Bound {
  std::string_view name;
  Slot slot;
  double least, most;
  std::string_view meaning;
};
Result<void> assign(const Bound& bound, const std::string& text);
double magnitude(const Bound& bound);
SettingInfo info(const Bound& bound);
}  // namespace settings_detail

class Settings {
 public:
  Settings() : Settings(None{}) {}  // of a policy without settings
  template <class T>
  explicit Settings(T values) : held_(std::make_unique<Held<T>>(std::move(values))) {}
  Settings(const Settings& other) : held_(other.held_->copy()) {}
  Settings(Settings&&) noexcept = default;
  Settings& operator=(Settings other) noexcept {
    held_ = std::move(other.held_);
    return *this;
  }
  ~Settings() = default;

  // REQUIRES: made from a T.
  template <class T>
  const T& as() const {
    const auto* held = dynamic_cast<const Held<T>*>(held_.get());
    SLUICE_CHECK(held != nullptr, "another policy's settings");
    return held->values;
  }
  template <class T>
  bool is() const {
    return dynamic_cast<const Held<T>*>(held_.get()) != nullptr;
  }

  // Returns these settings, overridden by others. An error names the setting, the text and the
  // allowed range. Each is checked by itself.
  Result<Settings> with(const SettingTexts& texts) const;
  // Checks that the settings agree with each other; an error names both, with their values.
  Result<void> check() const;
  std::vector<SettingInfo> list() const;

 private:
  struct None {
    static std::span<const Setting<None>> settings() { return {}; }
  };
  struct HeldBase {
    virtual ~HeldBase() = default;
    virtual std::unique_ptr<HeldBase> copy() const = 0;
    virtual std::vector<settings_detail::Bound> bounds() = 0;
    virtual std::span<const SettingOrder> orders() const = 0;
  };
  template <class T>
  struct Held : HeldBase {
    explicit Held(T v) : values(std::move(v)) {}
    std::unique_ptr<HeldBase> copy() const override { return std::make_unique<Held>(values); }
    std::vector<settings_detail::Bound> bounds() override {
      std::vector<settings_detail::Bound> all;
      for (const Setting<T>& s : T::settings())
        all.push_back(
            {s.name,
             std::visit([&](auto field) -> settings_detail::Slot { return &(values.*field); },
                        s.field),
             s.least, s.most, s.meaning});
      return all;
    }
    std::span<const SettingOrder> orders() const override {
      if constexpr (requires { T::kOrders; })
        return T::kOrders;
      else
        return {};
    }
    T values;
  };

  std::unique_ptr<HeldBase> held_;
};

}  // namespace sluice::policy
