#include "gateway/inferences.h"

#include <charconv>
#include <optional>

namespace sluice::gateway {
namespace {

constexpr size_t kMostRead = 16 << 10;
constexpr int64_t kMostInferences = 65'536;
constexpr int kDeepest = 16;

// Steps through JSON without building it. Every call moves on or fails; nothing is copied.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : left_(text) {}

  bool take(char wanted) {
    skip_space();
    if (!left_.starts_with(wanted)) return false;
    left_.remove_prefix(1);
    return true;
  }

  // A string's text between its quotes, as it stands there. Nothing: there is none.
  std::optional<std::string_view> string() {
    if (!take('"')) return std::nullopt;
    for (size_t i = 0; i < left_.size(); ++i) {
      if (left_[i] == '\\') {
        ++i;
      } else if (left_[i] == '"') {
        const std::string_view text = left_.substr(0, i);
        left_.remove_prefix(i + 1);
        return text;
      }
    }
    return std::nullopt;
  }

  std::optional<int64_t> integer() {
    skip_space();
    int64_t value = 0;
    const auto [end, fault] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
    if (fault != std::errc()) return std::nullopt;
    left_.remove_prefix(static_cast<size_t>(end - left_.data()));
    const bool ends = take(',') || take(']');  // 1.5 and 1e9 are none
    return ends ? std::optional(value) : std::nullopt;
  }

  // Passes over one value.
  bool skip_value(int depth = 0) {
    skip_space();
    if (left_.empty() || depth > kDeepest) return false;
    if (left_.front() == '"') return string().has_value();
    if (left_.front() == '{' || left_.front() == '[') return skip_container(depth);
    const size_t end = left_.find_first_of(",]} \t\r\n");
    if (end == 0 || end == left_.npos) return false;
    left_.remove_prefix(end);
    return true;
  }

  // Moves to the value of `name` in the object that begins here. False: it has none.
  bool enter(std::string_view name) {
    if (!take('{')) return false;
    do {
      const auto key = string();
      if (!key || !take(':')) return false;
      if (*key == name) return true;
      if (!skip_value()) return false;
    } while (take(','));
    return false;
  }

 private:
  void skip_space() {
    const size_t at = left_.find_first_not_of(" \t\r\n");
    left_.remove_prefix(std::min(at, left_.size()));
  }

  bool skip_container(int depth) {
    const bool object = left_.front() == '{';
    const char close = object ? '}' : ']';
    left_.remove_prefix(1);
    if (take(close)) return true;
    do {
      if (object && (!string() || !take(':'))) return false;
      if (!skip_value(depth + 1)) return false;
    } while (take(','));
    return take(close);
  }

  std::string_view left_;
};

std::optional<int64_t> first_dimension(std::string_view body) {
  Scanner json(body.substr(0, kMostRead));
  const bool there =
      json.enter("inputs") && json.take('[') && json.enter("shape") && json.take('[');
  return there ? json.integer() : std::nullopt;
}

std::optional<int64_t> said(const Head& request) {
  const auto text = request.find("Sluice-Inferences");
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), value);
  const bool whole = fault == std::errc() && end == text->data() + text->size();
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace

int inferences_asked(const Head& request, std::string_view body, uint64_t body_bytes) {
  auto count = said(request);
  if (!count) count = first_dimension(body);
  const bool can_be = count && *count >= 1 && *count <= kMostInferences &&
                      static_cast<uint64_t>(*count) <= body_bytes;
  return can_be ? static_cast<int>(*count) : 0;
}

}  // namespace sluice::gateway
