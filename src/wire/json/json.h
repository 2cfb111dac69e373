// The domain's nouns as JSON, as they cross processes. Writing never fails; reading names the
// field, the value and the allowed range. Missing fields keep their defaults unless said otherwise.
// Unknown fields are ignored, so that versions can mix.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "base/result.h"
#include "model/action.h"
#include "model/device.h"
#include "model/instance.h"

namespace sluice::wire {

// Parses a text. Returns kInvalid with the position of the error. Nesting is bounded to 64 levels.
Result<nlohmann::json> parse_json(std::string_view text);

// Returns a text of one line. Bytes that are not UTF-8, as a file's name may have, become "\uFFFD".
std::string text_of(const nlohmann::json& value);

nlohmann::json to_json(const Slice&);
nlohmann::json to_json(const Position&);
nlohmann::json to_json(const DeviceLink&);
nlohmann::json to_json(const NicLink&);
nlohmann::json to_json(const Device&);
nlohmann::json to_json(const TensorSpec&);
nlohmann::json to_json(const ModelSpec&);
nlohmann::json to_json(const Batching&);
nlohmann::json to_json(const Part&);
nlohmann::json to_json(const Instance&);
nlohmann::json to_json(const Reason&);
nlohmann::json to_json(const Action&);

Result<Slice> slice_from(const nlohmann::json&);
Result<Position> position_from(const nlohmann::json&);
Result<DeviceLink> device_link_from(const nlohmann::json&);
Result<NicLink> nic_link_from(const nlohmann::json&);
Result<Device> device_from(const nlohmann::json&);
Result<TensorSpec> tensor_spec_from(const nlohmann::json&);
Result<ModelSpec> model_spec_from(const nlohmann::json&);
Result<Batching> batching_from(const nlohmann::json&);
Result<Part> part_from(const nlohmann::json&);
Result<Instance> instance_from(const nlohmann::json&);
Result<Reason> reason_from(const nlohmann::json&);

std::string_view to_string(InstanceState);
Result<InstanceState> instance_state_from(std::string_view);

// Reads typed fields of one JSON object; keeps the first fault and ignores everything after it.
//   Fields f(json, "slice");
//   Slice s{.sm = {f.integer("sm", 1000, 0, 1000)}, …};
//   return f.finish(s);
class Fields {
 public:
  Fields(const nlohmann::json& object, std::string_view what);

  int64_t integer(std::string_view key, int64_t otherwise, int64_t low, int64_t high);
  double number(std::string_view key, double otherwise, double low, double high);
  bool boolean(std::string_view key, bool otherwise);
  std::string text(std::string_view key, std::string otherwise = "");
  const nlohmann::json* child(std::string_view key);  // nullptr: absent or null
  std::vector<nlohmann::json> list(std::string_view key);
  // Reads a child with one of the …_from functions.
  template <class T>
  T part(std::string_view key, Result<T> (*read)(const nlohmann::json&), T otherwise = {}) {
    const nlohmann::json* c = child(key);
    if (c == nullptr || !error_.message.empty()) return otherwise;
    Result<T> r = read(*c);
    if (!r.ok()) return fail(key, r.error().message), otherwise;
    return std::move(*r);
  }
  // As child(), for each item of a list.
  template <class T>
  std::vector<T> parts(std::string_view key, Result<T> (*read)(const nlohmann::json&)) {
    std::vector<T> out;
    for (const nlohmann::json& item : list(key)) {
      Result<T> one = read(item);
      if (!one.ok()) return fail(key, one.error().message), out;
      out.push_back(std::move(*one));
    }
    return out;
  }

  void fail(std::string_view key, std::string_view why);
  template <class T>
  Result<T> finish(T value) const {
    if (!error_.message.empty()) return error_;
    return value;
  }

 private:
  const nlohmann::json& object_;
  std::string what_;
  Error error_{ErrorKind::kInvalid, ""};
};

}  // namespace sluice::wire
