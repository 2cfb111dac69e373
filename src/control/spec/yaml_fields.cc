#include "control/spec/yaml_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "model/quantity.h"

namespace sluice::control {
namespace {

std::string shown(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "nothing";
  const std::string& text = node.Scalar();
  return "\"" + (text.size() > 60 ? text.substr(0, 57) + "..." : text) + "\"";
}

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// YAML reads these unquoted words as something other than text.
bool reads_as_text(const std::string& word) {
  if (parse_number<double>(word)) return false;
  for (const char* other : {"true", "false", "null", "~", "yes", "no", "on", "off"})
    if (word == other) return false;
  return true;
}

std::string trimmed(double x) {
  std::string text = std::to_string(x);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

// Levenshtein's distance, two rows.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (std::tolower(a[i - 1]) != std::tolower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 64;
  std::optional<std::string> best;
  if (word.size() > kLongest) return best;
  size_t least = std::max<size_t>(2, word.size() / 4) + 1;
  for (const std::string& k : known)
    if (const size_t d = distance(word, k); d < least) {
      least = d;
      best = k;
    }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const auto best = nearest(word, known);
  return best ? ", did you mean \"" + *best + "\"?" : ".";
}

std::string Source::at(std::string field) const {
  constexpr std::string_view kServer = "spec.server";
  if (field == kServer || field.starts_with(std::string(kServer) + "."))
    field.replace(0, kServer.size(), server);
  int where = line;
  for (std::string parent = field;;) {
    if (const auto it = lines.find(parent); it != lines.end()) {
      where = it->second;
      break;
    }
    const size_t dot = parent.rfind('.');
    if (dot == std::string::npos) break;
    parent.resize(dot);
  }
  return file + ":" + std::to_string(where) + " " + field;
}

Fields::Fields(const YAML::Node& node, std::string path, Source& source, Problems& problems)
    : path_(std::move(path)), source_(source), problems_(problems) {
  if (!node.IsDefined()) return;
  if (!path_.empty()) source_.lines[path_] = node.Mark().line + 1;
  if (!node.IsMap()) {
    problems_.push_back(source_.at(path_.empty() ? "document" : path_) + ": " + shown(node) +
                        " stands where a mapping of fields must");
    broken_ = true;
    return;
  }
  for (const auto& entry : node) {
    if (!entry.first.IsScalar()) {
      complain("?", "a key is " + shown(entry.first) + "; keys are words");
      continue;
    }
    const std::string key = entry.first.Scalar();
    source_.lines[path_of(key)] = entry.first.Mark().line + 1;
    if (!left_.emplace(key, entry.second).second) complain(key, "stands twice; once is allowed");
  }
}

Fields::~Fields() {
  for (const auto& [key, value] : left_)
    if (const auto meant = nearest(key, known_)) missing_.erase(*meant);
  for (const auto& [key, what] : missing_) complain(key, what);
  for (const auto& [key, value] : left_) {
    std::string allowed;
    for (const std::string& k : known_) allowed += (allowed.empty() ? "" : ", ") + k;
    complain(key, "unknown field" + did_you_mean(key, known_) + " Allowed here: " + allowed);
  }
}

bool Fields::has(std::string_view key) const {
  return left_.contains(std::string(key));
}

std::string Fields::path_of(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

YAML::Node Fields::take(const std::string& key) {
  known_.push_back(key);
  const auto it = left_.find(key);
  if (it == left_.end()) return YAML::Node(YAML::NodeType::Undefined);
  const YAML::Node node = it->second;
  left_.erase(it);
  return node;
}

bool Fields::is_mapping(const std::string& key) const {
  const auto it = left_.find(key);
  return it != left_.end() && it->second.IsMap();
}

void Fields::words(const std::string& key, std::vector<std::string>& out) {
  const YAML::Node list = take(key);
  if (!list.IsDefined()) return;
  bool good = list.IsSequence() && list.size() > 0;
  for (size_t i = 0; good && i < list.size(); ++i) {
    good = list[i].IsScalar();
    if (good) out.push_back(list[i].Scalar());
  }
  if (!good) complain(key, "must be a list of words, such as [/usr/bin/python3, train.py]");
}

void Fields::texts(const std::string& key, std::map<std::string, std::string>& out) {
  entries(key, "a mapping of names to values",
          [&](const std::string& name, const YAML::Node& value) {
            if (value.IsScalar())
              out.emplace(name, value.Scalar());
            else
              complain(key, name + " must be one value");
          });
}

void Fields::entries(const std::string& key, std::string_view allowed, const ReadEntry& read) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  if (!node.IsMap()) return complain(key, "must be " + std::string(allowed));
  std::set<std::string> names;
  for (const auto& entry : node) {
    const auto name = entry.first.as<std::string>("");
    source_.lines[path_of(key) + "." + name] = entry.first.Mark().line + 1;
    if (names.insert(name).second)
      read(name, entry.second);
    else
      complain(key, name + " stands twice");
  }
}

void Fields::complain(const std::string& key, std::string_view what) {
  problems_.push_back(source_.at(path_of(key)) + ": " + std::string(what));
}

void Fields::need(const std::string& key, std::string_view allowed) {
  if (!broken_ && !has(key)) missing_[key] = "is missing; it must be " + std::string(allowed);
}

void Fields::scalar(const std::string& key, std::string_view allowed,
                    const std::function<Result<void>(const std::string&, bool)>& read) {
  const YAML::Node node = take(key);
  if (!node.IsDefined()) return;
  if (!node.IsScalar()) return complain(key, shown(node) + " is not " + std::string(allowed));
  const bool quoted = node.Tag() == "!";
  if (const Result<void> done = read(node.Scalar(), quoted); !done.ok())
    complain(key, done.error().message);
}

bool Fields::text(const std::string& key, std::string& out) {
  bool read = false;
  scalar(key, "text", [&](const std::string& value, bool quoted) -> Result<void> {
    if (!quoted && !reads_as_text(value))
      return Error{ErrorKind::kInvalid, value + " is not text; put it in quotes"};
    out = value;
    read = true;
    return {};
  });
  return read;
}

void Fields::integer(const std::string& key, int& out, int low, int high) {
  const std::string allowed =
      "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  scalar(key, allowed, [&](const std::string& value, bool quoted) -> Result<void> {
    const std::optional<int> n = quoted ? std::nullopt : parse_number<int>(value);
    if (!n || *n < low || *n > high)
      return Error{ErrorKind::kInvalid, "\"" + value + "\" is not " + allowed};
    out = *n;
    return {};
  });
}

void Fields::number(const std::string& key, double& out, double low, double high) {
  const std::string allowed = "a number from " + trimmed(low) + " to " + trimmed(high);
  scalar(key, allowed, [&](const std::string& value, bool quoted) -> Result<void> {
    const std::optional<double> n = quoted ? std::nullopt : parse_number<double>(value);
    if (!n || !(*n >= low && *n <= high))
      return Error{ErrorKind::kInvalid, "\"" + value + "\" is not " + allowed};
    out = *n;
    return {};
  });
}

void Fields::duration(const std::string& key, Nanos& out, Nanos low, Nanos high) {
  scalar(key, "a duration", [&](const std::string& value, bool) -> Result<void> {
    SLUICE_ASSIGN(d, parse_duration(value));
    if (d < low || d > high)
      return Error{ErrorKind::kInvalid, "\"" + value + "\" is not a duration from " +
                                            format_duration(low) + " to " + format_duration(high)};
    out = d;
    return {};
  });
}

void Fields::share(const std::string& key, Share& out) {
  scalar(key, "a share, such as 20%", [&](const std::string& value, bool) -> Result<void> {
    SLUICE_ASSIGN(s, parse_share(value));
    out = s;
    return {};
  });
}

void Fields::bytes(const std::string& key, Bytes& out) {
  scalar(key, "an amount of memory, such as 512Mi",
         [&](const std::string& value, bool) -> Result<void> {
           SLUICE_ASSIGN(b, parse_bytes(value));
           out = b;
           return {};
         });
}

}  // namespace sluice::control
