#include "control/peers/metrics_page.h"

#include <algorithm>
#include <charconv>

namespace sluice::control {
namespace {

constexpr double kMost = 1e18;

struct Name {
  std::string_view name;
  double ProgramCounts::*counter;
};
constexpr Name kNames[] = {{"nv_inference_count", &ProgramCounts::inferences},
                           {"nv_inference_exec_count", &ProgramCounts::executions},
                           {"nv_inference_request_duration_us", &ProgramCounts::request_us},
                           {"nv_inference_queue_duration_us", &ProgramCounts::queue_us},
                           {"nv_inference_compute_infer_duration_us", &ProgramCounts::compute_us}};

// Takes one line off the text, without its end.
std::string_view next_line(std::string_view& text) {
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == text.npos ? std::string_view() : text.substr(end + 1);
  return line;
}

// Returns what follows the labels; nothing if they do not end. A label's text may hold braces.
std::optional<std::string_view> after_labels(std::string_view rest) {
  if (!rest.starts_with('{')) return rest;
  bool quoted = false;
  for (size_t i = 1; i < rest.size(); ++i) {
    if (quoted && rest[i] == '\\')
      ++i;
    else if (rest[i] == '"')
      quoted = !quoted;
    else if (!quoted && rest[i] == '}')
      return rest.substr(i + 1);
  }
  return std::nullopt;
}

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text;
}

// Returns the value before the end or a timestamp; nothing if it is none that a counter can have.
std::optional<double> value_from(std::string_view text) {
  text = without_blanks(text);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool ends = end == text.data() + text.size() || *end == ' ' || *end == '\t' || *end == '\r';
  if (fault != std::errc() || !ends || !(value >= 0 && value <= kMost)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<ProgramCounts> program_counts_from(std::string_view page) {
  ProgramCounts counts;
  bool counted = false;
  while (!page.empty()) {
    const std::string_view line = without_blanks(next_line(page));
    if (!line.starts_with("nv_inference_")) continue;
    const std::string_view name = line.substr(0, line.find_first_of("{ \t"));
    const auto* known = std::ranges::find(kNames, name, &Name::name);
    if (known == std::end(kNames)) continue;
    const auto rest = after_labels(without_blanks(line.substr(name.size())));
    const auto value = rest ? value_from(*rest) : std::nullopt;
    if (!value) continue;
    counts.*known->counter = std::min(counts.*known->counter + *value, kMost);
    counted |= known->counter == &ProgramCounts::inferences;
  }
  if (!counted) return std::nullopt;
  return counts;
}

}  // namespace sluice::control
