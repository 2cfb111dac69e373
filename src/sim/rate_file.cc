#include "sim/rate_file.h"

#include <charconv>
#include <cmath>
#include <string>

namespace sluice::sim {
namespace {

constexpr size_t kMostSteps = 1'000'000;
constexpr double kLeastSeconds = 1e-3, kMostSeconds = 86'400;
constexpr double kMostRate = 1e6;

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t\r");
  if (first == s.npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r") - first + 1);
}

// The whole text as a finite number.
bool read_number(std::string_view text, double& out) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  return fault == std::errc() && end == text.data() + text.size() && std::isfinite(out);
}

Result<double> parse_rate(std::string_view text, double scale) {
  double rate = 0;
  if (!read_number(text, rate) || rate < 0 || rate * scale > kMostRate)
    return Error{ErrorKind::kInvalid, "rate: '" + std::string(text.substr(0, 40)) +
                                          "' is no number from 0 to 1000000 a second"};
  return rate * scale;
}

}  // namespace

Result<Nanos> parse_duration(std::string_view text) {
  double unit = 1;
  std::string_view number = text;
  const auto ends = [&](std::string_view suffix, double s) {
    if (!number.ends_with(suffix)) return false;
    number.remove_suffix(suffix.size());
    unit = s;
    return true;
  };
  (void)(ends("ms", 1e-3) || ends("s", 1) || ends("m", 60) || ends("h", 3600));
  double value = 0;
  if (!read_number(number, value) || value * unit < kLeastSeconds || value * unit > kMostSeconds)
    return Error{ErrorKind::kInvalid, "duration: '" + std::string(text.substr(0, 40)) +
                                          "' is none like 500ms, 5s, 2m (1ms to 24h)"};
  return from_seconds(value * unit);
}

Result<RatePlan> parse_rates(std::string_view text, const RateFileOptions& options) {
  RatePlan plan;
  int line_number = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    std::string_view line = text.substr(0, newline);
    text = newline == text.npos ? "" : text.substr(newline + 1);
    ++line_number;
    const std::string place = "line " + std::to_string(line_number);

    line = trimmed(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    RateStep step{.duration = options.step};
    if (const size_t space = line.find_first_of(" \t"); space != line.npos) {
      const Result<Nanos> duration = parse_duration(line.substr(0, space));
      if (!duration.ok()) return within(place, duration.error());
      step.duration = *duration;
      line = trimmed(line.substr(space));
    }
    const Result<double> rate = parse_rate(line, options.scale);
    if (!rate.ok()) return within(place, rate.error());
    step.rate = *rate;
    plan.push_back(step);
    if (plan.size() > kMostSteps)
      return Error{ErrorKind::kInvalid, place + ": more than 1000000 steps"};
  }
  if (plan.empty()) return Error{ErrorKind::kInvalid, "rates: there is no step in it"};
  return plan;
}

RatePlan fit_to(const RatePlan& plan, Nanos duration) {
  RatePlan out;
  Nanos left = duration;
  for (size_t i = 0; left > Nanos(0) && !plan.empty(); i = (i + 1) % plan.size()) {
    out.push_back({std::min(plan[i].duration, left), plan[i].rate});
    left -= out.back().duration;
  }
  return out;
}

}  // namespace sluice::sim
