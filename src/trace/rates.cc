#include "trace/rates.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/words.h"
#include "trace/clusters.h"
#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::trace {
namespace {

constexpr size_t kMostSteps = 1'000'000;
constexpr double kMostRate = 1e6;
constexpr Nanos kLongest = std::chrono::hours(24 * 366);
constexpr double kMostSeconds = seconds(kLongest), kLeastSeconds = 1e-3;
constexpr size_t kLeastName = 8;               // characters that name a row
constexpr size_t kMostJson = size_t{1} << 20;  // bytes

Result<double> rate_in(const TextFile& file, std::string_view column, std::string_view field,
                       double scale) {
  SLUICE_ASSIGN(rate, number_in(file, column, field, 0, kMostRate));
  if (rate * scale <= kMostRate) return rate * scale;
  return file.error(std::string(column) + ": times its scale it is above 1000000 a second");
}

// The steps read so far.
struct Steps {
  Rates rates;
  Nanos length{};

  // Returns what is wrong; empty: nothing.
  std::string_view add(const RateStep& step) {
    if (rates.size() == kMostSteps) return "there are more than 1000000 steps";
    if ((length += step.length) > kLongest) return "the steps last more than 366 days";
    rates.push_back(step);
    return {};
  }
};

Result<Rates> nonempty(const TextFile& file, Rates rates) {
  if (rates.empty()) return file.error("there is no rate in the file");
  return rates;
}

Result<Rates> read_lines(const std::string& path, const RateOptions& options) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  Steps steps;
  while (true) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) return nonempty(file, std::move(steps.rates));
    SLUICE_ASSIGN(rate, rate_in(file, "rate", *line, options.scale));
    if (const auto fault = steps.add({options.every, rate, rate}); !fault.empty())
      return file.error(fault);
  }
}

// The columns 1 … 1440, as Azure names them, or minute_1 … minute_1440, as samples of them do:
// their invocations, spread evenly over the minute.
Result<Rates> minutes_of(const TextFile& file, const Header& header,
                         const std::vector<std::string_view>& fields, double scale) {
  Rates rates;
  const auto plain = header.column(file, "1");
  const std::string prefix = plain.ok() ? "" : "minute_";
  SLUICE_ASSIGN(first, plain.ok() ? plain : header.column(file, "minute_1"));
  for (size_t column = first; column < fields.size(); ++column) {
    const std::string name = prefix + std::to_string(rates.size() + 1);
    SLUICE_ASSIGN(at, header.column(file, name));
    SLUICE_ASSIGN(count, rate_in(file, name, fields[at], scale));
    rates.push_back({Seconds(60), count / 60, count / 60});
  }
  return rates;
}

Result<Rates> read_azure_minutes(const std::string& path, const RateOptions& options) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(header, Header::read(file));
  SLUICE_ASSIGN(name, header.column(file, "HashFunction"));
  const std::string wanted = options.row.empty() ? "1" : options.row;
  // A hash names a function within its application, so several rows may have it.
  std::vector<std::string> rows;
  Rates rates;
  int64_t row = 1;
  for (;; ++row) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) break;
    SLUICE_ASSIGN(fields, header.fields(file, *line));
    const bool numbered = std::to_string(row) == wanted;
    if (!numbered && (wanted.size() < kLeastName || !fields[name].starts_with(wanted))) continue;
    SLUICE_ASSIGN(found, minutes_of(file, header, fields, options.scale));
    if (numbered) return found;
    rates = std::move(found);
    rows.push_back(std::to_string(row));
  }
  const std::string asked = "'" + clipped(wanted, 80) + "'";
  if (rows.empty())
    return file.error("there is no function " + asked + "; the file has " +
                      std::to_string(row - 1));
  if (rows.size() > 1)
    return file.error(asked + " names " + std::to_string(rows.size()) +
                      " functions; name one by its row: " + listed(rows));
  return rates;
}

// "5s" as HAS-GPU's script writes it; plain numbers are seconds.
std::optional<Nanos> duration_in(std::string_view text) {
  if (text.ends_with('s')) text.remove_suffix(1);
  const std::optional<double> value = number(text);
  if (!value || *value < 1e-3 || *value > kMostSeconds) return std::nullopt;
  return from_seconds(*value);
}

Result<Rates> read_has_gpu(const std::string& path, const RateOptions& options) {
  SLUICE_ASSIGN(text, read_text(path, kMostJson));
  const auto fault = [&](std::string_view what) {
    return Error{ErrorKind::kInvalid, path + ": " + std::string(what)};
  };
  const nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
  if (!j.is_object()) return fault("the file is no JSON object");
  const auto counts = j.find("processed_request_counts");
  if (counts == j.end() || !counts->is_array() || counts->empty())
    return fault("processed_request_counts: there is no such list");
  Nanos length = options.every;
  if (const auto p = j.find("parameters");
      p != j.end() && p->is_object() && p->contains("duration")) {
    const auto& stated = (*p)["duration"];
    const auto read = stated.is_string() ? duration_in(stated.get<std::string>()) : std::nullopt;
    if (!read) return fault("parameters.duration: it is no time like \"5s\"");
    length = *read;
  }
  Steps steps;
  for (const nlohmann::json& rate : *counts) {
    const double value = rate.is_number() ? rate.get<double>() * options.scale : -1;
    if (!(value >= 0 && value <= kMostRate))
      return fault("processed_request_counts[" + std::to_string(steps.rates.size()) +
                   "] is no number from 0 to 1e+06");
    if (const auto wrong = steps.add({length, value, value}); !wrong.empty()) return fault(wrong);
  }
  return steps.rates;
}

Result<Rates> read_k6(const std::string& path, const RateOptions& options) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(header, Header::read(file));
  SLUICE_ASSIGN(target_column, header.column(file, "target_rps"));
  SLUICE_ASSIGN(ramp_column, header.column(file, "ramp_seconds"));
  Steps steps;
  for (double before = 0;;) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) return nonempty(file, std::move(steps.rates));
    SLUICE_ASSIGN(fields, header.fields(file, *line));
    SLUICE_ASSIGN(target, rate_in(file, "target_rps", fields[target_column], options.scale));
    SLUICE_ASSIGN(ramp, number_in(file, "ramp_seconds", fields[ramp_column], 0, kMostSeconds));
    if (ramp > 0 && ramp < kLeastSeconds)
      return file.error("ramp_seconds: the least is 0.001, or 0 for none");
    const RateStep step{from_seconds(ramp), before, target};
    if (const auto fault = ramp > 0 ? steps.add(step) : ""; !fault.empty())
      return file.error(fault);
    before = target;
  }
}

// The rate of the jobs of a kind, or of all: the GPUs that they hold, from the first one's begin
// on.
Result<Rates> rates_of_jobs(const std::string& path, const std::vector<RecordedJob>& jobs,
                            const RateOptions& options) {
  std::map<Nanos, int64_t> changes;  // of the permille held
  std::vector<std::string> kinds;
  for (const RecordedJob& job : jobs) {
    if (std::ranges::count(kinds, job.kind) == 0) kinds.push_back(job.kind);
    const int64_t held = int64_t{job.gpus} * job.request.permille;
    if (held == 0 || (!options.row.empty() && job.kind != options.row)) continue;
    changes[job.begin] += held;
    changes[job.end.value_or(Nanos::max())] -= held;
  }
  if (changes.empty())
    return Error{ErrorKind::kInvalid, path + ": no job of the kind '" + clipped(options.row, 40) +
                                          "' holds a GPU; there are " + listed(kinds)};
  Steps steps;
  int64_t held = 0;
  for (auto at = changes.begin(); std::next(at) != changes.end(); ++at) {
    held += at->second;
    const auto next = std::next(at)->first;
    if (next == Nanos::max()) break;
    const double rate = static_cast<double>(held) / 1000 * options.scale;
    const std::string_view fault =
        rate > kMostRate ? std::string_view("times its scale the rate is above 1000000 a second")
                         : steps.add({next - at->first, rate, rate});
    if (!fault.empty()) return Error{ErrorKind::kInvalid, path + ": " + std::string(fault)};
  }
  if (steps.rates.empty())
    return Error{ErrorKind::kInvalid, path + ": what holds GPUs never changes"};
  return steps.rates;
}

Result<Rates> read_openb_rates(const std::string& path, const RateOptions& options) {
  SLUICE_ASSIGN(jobs, read_openb_pods(path));
  return rates_of_jobs(path, jobs, options);
}

Result<Rates> read_dilu_rates(const std::string& path, const RateOptions& options) {
  SLUICE_ASSIGN(jobs, read_dilu_instances(path));
  return rates_of_jobs(path, jobs, options);
}

constexpr RateFormat kFormats[] = {
    {"lines", "one rate a line, each for a step", read_lines},
    {"azure-minutes", "Azure Functions 2019: invocations per minute", read_azure_minutes},
    {"has-gpu", "HAS-GPU's JSON: processed_request_counts", read_has_gpu},
    {"k6", "k6's stages: target_rps, ramp_seconds", read_k6},
    {"openb-pods", "Alibaba openb's pods: the GPUs that they hold", read_openb_rates},
    {"dilu-instances", "Dilu's instances: the GPUs that they hold", read_dilu_rates},
};

}  // namespace

std::span<const RateFormat> rate_formats() {
  return kFormats;
}

Result<Rates> read_rates(std::string_view format, const std::string& path,
                         const RateOptions& options) {
  std::vector<std::string> names;
  for (const RateFormat& f : kFormats) {
    if (f.name == format) return f.read(path, options);
    names.emplace_back(f.name);
  }
  return Error{ErrorKind::kInvalid, not_found("format", std::string(format), names)};
}

double requests_in(const Rates& rates) {
  double sum = 0;
  for (const RateStep& s : rates) sum += (s.from + s.to) / 2 * seconds(s.length);
  return sum;
}

Nanos length_of(const Rates& rates) {
  Nanos sum{};
  for (const RateStep& s : rates) sum += s.length;
  return sum;
}

}  // namespace sluice::trace
