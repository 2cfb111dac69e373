#include "wire/http/prometheus.h"

#include <cmath>
#include <iomanip>
#include <sstream>

namespace sluice::wire {
namespace {

constexpr double kBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                              0.25,  0.5,    1,     2.5,  5,     10,   30};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"' || c == '\n') out += '\\';
    out += c == '\n' ? 'n' : c;
  }
  return out;
}

std::string_view name_of(MetricFamily::Type type) {
  switch (type) {
    case MetricFamily::Type::kCounter:
      return "counter";
    case MetricFamily::Type::kGauge:
      return "gauge";
    case MetricFamily::Type::kHistogram:
      return "histogram";
  }
  return "untyped";
}

}  // namespace

std::string metric_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return (std::ostringstream() << std::setprecision(15) << value).str();
}

MetricLabels with(MetricLabels labels, std::string_view key, std::string text) {
  labels.emplace_back(key, std::move(text));
  return labels;
}

MetricFamily::MetricFamily(std::string& out, std::string_view name, Type type,
                           std::string_view help)
    : out_(out), name_(name) {
  out_ += "# HELP " + name_ + " ";
  out_ += help;
  out_ += "\n# TYPE " + name_ + " ";
  out_ += name_of(type);
  out_ += '\n';
}

void MetricFamily::add(const MetricLabels& labels, const Histogram& durations) {
  for (const double bound : kBounds)
    add("_bucket", with(labels, "le", metric_number(bound)),
        static_cast<double>(durations.at_most(from_seconds(bound))));
  const auto count = static_cast<double>(durations.count());
  add("_bucket", with(labels, "le", "+Inf"), count);
  add("_sum", labels, seconds(durations.sum()));
  add("_count", labels, count);
}

void MetricFamily::add(const MetricLabels& labels, const SizeHistogram& sizes) {
  for (int power = 8; power <= 26; power += 2) {
    const uint64_t bound = uint64_t{1} << power;
    add("_bucket", with(labels, "le", std::to_string(bound)),
        static_cast<double>(sizes.at_most(bound)));
  }
  const auto count = static_cast<double>(sizes.count());
  add("_bucket", with(labels, "le", "+Inf"), count);
  add("_sum", labels, static_cast<double>(sizes.sum()));
  add("_count", labels, count);
}

void MetricFamily::add(std::string_view suffix, const MetricLabels& labels, double value) {
  out_ += name_;
  out_ += suffix;
  char before = '{';
  for (const auto& [key, text] : labels) {
    out_ += before;
    out_ += key;
    out_ += "=\"" + escaped(text) + "\"";
    before = ',';
  }
  if (!labels.empty()) out_ += '}';
  out_ += " " + metric_number(value) + "\n";
}

}  // namespace sluice::wire
