#include "control/spec/schema_yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>

namespace sluice::control {
namespace {

// Whether a plain word is a text to every reader of YAML: no number, date, null or truth value.
bool is_plain(const std::string& text) {
  constexpr std::string_view kOther[] = {"y",   "n",    "yes",   "no",  "on",
                                         "off", "true", "false", "null"};
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  return !text.empty() && letter(text[0]) && std::ranges::find(kOther, lower) == std::end(kOther) &&
         std::ranges::all_of(text, [&](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '/';
         });
}

void emit(YAML::Emitter& y, const Schema& value);

void emit_list(YAML::Emitter& y, const Schema& list) {
  const bool short_list = std::ranges::none_of(list, &Schema::is_structured);
  y << (short_list ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
  for (const Schema& item : list) emit(y, item);
  y << YAML::EndSeq;
}

void emit_text(YAML::Emitter& y, const std::string& text) {
  if (!is_plain(text)) y << YAML::DoubleQuoted;
  y << text;
}

void emit(YAML::Emitter& y, const Schema& value) {
  if (value.is_string()) return emit_text(y, value.get<std::string>());
  if (value.is_array()) return emit_list(y, value);
  if (!value.is_object()) {
    y << value.dump();  // numbers and truth values are written as in JSON
    return;
  }
  if (value.empty()) y << YAML::Flow;
  y << YAML::BeginMap;
  for (const auto& [key, inner] : value.items()) {
    y << YAML::Key;
    emit_text(y, key);
    y << YAML::Value;
    emit(y, inner);
  }
  y << YAML::EndMap;
}

}  // namespace

std::string schema_yaml(const Schema& value) {
  YAML::Emitter y;
  emit(y, value);
  return std::string(y.c_str()) + "\n";
}

}  // namespace sluice::control
