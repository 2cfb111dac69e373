// What an API server, and a client that validates before it, do with an object: YAML becomes JSON,
// the schema is checked, unknown fields are named, defaults are filled in. As much of it as our
// schemas use, for structural ones and for JSON schemas. For tests only.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "control/spec/function_schema.h"

namespace sluice::control {

// As YAML's core schema reads a scalar.
inline Schema json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    Schema out = Schema::object();
    for (const auto& entry : node) out[entry.first.Scalar()] = json_of(entry.second);
    return out;
  }
  if (node.IsSequence()) {
    Schema out = Schema::array();
    for (const YAML::Node& item : node) out.push_back(json_of(item));
    return out;
  }
  if (!node.IsScalar()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (bool flag = false; YAML::convert<bool>::decode(node, flag)) return flag;
  if (!Schema::accept(text)) return text;
  const Schema value = Schema::parse(text);
  return value.is_number() || value.is_null() ? value : Schema(text);
}

class SchemaCheck {
 public:
  // Returns what is wrong: "spec.slo.latency: is no string".
  static std::vector<std::string> problems(const Schema& schema, const Schema& value) {
    SchemaCheck check;
    check.look(schema, value, "");
    return check.problems_;
  }

 private:
  static bool has_type(const std::string& type, const Schema& v) {
    if (type == "integer") return v.is_number() && v.get<double>() == std::floor(v.get<double>());
    if (type == "number") return v.is_number();
    if (type == "string") return v.is_string();
    if (type == "boolean") return v.is_boolean();
    return type == "array" ? v.is_array() : v.is_object();
  }
  static std::vector<std::string> types_of(const Schema& s) {
    if (s.value("x-kubernetes-int-or-string", false)) return {"integer", "string"};
    if (!s.contains("type")) return {};
    if (s["type"].is_string()) return {s["type"].get<std::string>()};
    return s["type"].get<std::vector<std::string>>();
  }

  void complain(const std::string& path, const std::string& what) {
    problems_.push_back(path + ": " + what);
  }

  void look(const Schema& s, const Schema& v, const std::string& path) {
    const std::vector<std::string> types = types_of(s);
    bool fits = types.empty();
    std::string all;
    for (const std::string& type : types) {
      fits = fits || has_type(type, v);
      all += (all.empty() ? "" : " or ") + type;
    }
    if (!fits) return complain(path, "is no " + all);
    if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), v) == s["enum"].end())
      complain(path, "is none of " + s["enum"].dump());
    if (v.is_number()) look_at_number(s, v.get<double>(), path);
    if (v.is_string()) look_at_text(s, v.get<std::string>(), path);
    if (v.is_array()) look_at_list(s, v, path);
    if (v.is_object()) look_at_object(s, v, path);
    for (const char* several : {"anyOf", "oneOf"})
      if (s.contains(several)) look_at_choices(several, s[several], v, path);
  }
  void look_at_number(const Schema& s, double n, const std::string& path) {
    if (s.contains("minimum") && n < s["minimum"].get<double>()) complain(path, "is too small");
    if (s.contains("maximum") && n > s["maximum"].get<double>()) complain(path, "is too large");
    if (s.contains("multipleOf") && n != std::floor(n)) complain(path, "is a fraction");
  }
  void look_at_text(const Schema& s, const std::string& text, const std::string& path) {
    if (s.contains("pattern") && !std::regex_search(text, std::regex(s["pattern"])))
      complain(path, "does not match");
    if (text.size() < s.value("minLength", size_t{0}) ||
        text.size() > s.value("maxLength", SIZE_MAX))
      complain(path, "has a wrong length");
  }
  void look_at_list(const Schema& s, const Schema& list, const std::string& path) {
    if (list.size() < s.value("minItems", size_t{0}) || list.size() > s.value("maxItems", SIZE_MAX))
      complain(path, "has a wrong number of items");
    for (size_t i = 0; s.contains("items") && i < list.size(); ++i)
      look(s["items"], list[i], path + "[" + std::to_string(i) + "]");
  }
  void look_at_object(const Schema& s, const Schema& object, const std::string& path) {
    if (object.size() > s.value("maxProperties", SIZE_MAX)) complain(path, "is an object");
    for (const Schema& key : s.value("required", Schema::array()))
      if (!object.contains(key.get<std::string>())) complain(path, "lacks " + key.dump());
    // In a structural schema an object without either drops everything.
    const bool preserves = s.value("x-kubernetes-preserve-unknown-fields", false);
    for (const auto& [key, value] : object.items()) {
      const std::string inner = path + (path.empty() ? "" : ".") + key;
      if (s.contains("properties") && s["properties"].contains(key))
        look(s["properties"][key], value, inner);
      else if (s.contains("additionalProperties") && s["additionalProperties"].is_object())
        look(s["additionalProperties"], value, inner);
      else if (s.contains("properties") && !preserves)
        complain(inner, "unknown field");
    }
  }
  // A choice of ours says what is required, or has all of a document.
  void look_at_choices(const std::string& several, const Schema& choices, const Schema& v,
                       const std::string& path) {
    size_t good = 0;
    for (const Schema& choice : choices) good += problems(choice, v).empty();
    if (good == 0 || (several == "oneOf" && good > 1))
      complain(path, "fits " + std::to_string(good) + " of " + several);
  }

  std::vector<std::string> problems_;
};

// Fills in the defaults of what is there.
inline void fill_defaults(const Schema& s, Schema& v) {
  if (v.is_array() && s.contains("items"))
    for (Schema& item : v) fill_defaults(s["items"], item);
  if (!v.is_object() || !s.contains("properties")) return;
  for (const auto& [key, inner] : s["properties"].items()) {
    if (!v.contains(key) && inner.contains("default")) v[key] = inner["default"];
    if (v.contains(key)) fill_defaults(inner, v[key]);
  }
}

}  // namespace sluice::control
