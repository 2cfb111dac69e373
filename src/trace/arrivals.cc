#include "trace/arrivals.h"

#include <charconv>
#include <cmath>

#include "base/words.h"

namespace sluice::trace {
namespace {

constexpr double kLatest = 4e9;  // of a plain number: a time of this century in seconds

// The digits before `end`, which is left out; nothing if there is another character.
std::optional<int> take(std::string_view& text, size_t digits, std::string_view ends) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + digits, value);
  if (fault != std::errc() || end != text.data() + digits || value < 0) return std::nullopt;
  text.remove_prefix(digits);
  if (ends.empty()) return value;
  if (text.empty() || ends.find(text.front()) == ends.npos) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

// Takes "Z", "+02:00" or "-0700" off the end: how far that clock is ahead of UTC. No offset is UTC.
std::optional<Nanos> offset_at_end(std::string_view& text) {
  if (text.ends_with('Z') || text.ends_with('z')) text.remove_suffix(1);
  const size_t sign = text.find_first_of("+-");
  if (sign == text.npos) return Nanos(0);
  std::string_view offset = text.substr(sign + 1);
  const bool ahead = text[sign] == '+';
  text = text.substr(0, sign);
  const auto h = take(offset, 2, "");
  if (offset.starts_with(':')) offset.remove_prefix(1);
  const auto m = take(offset, 2, "");
  if (!h || !m || !offset.empty() || *h > 23 || *m > 59) return std::nullopt;
  const Nanos by = std::chrono::hours(*h) + std::chrono::minutes(*m);
  return ahead ? by : -by;
}

// ".6805900" as nanoseconds; digits beyond the ninth do not count.
std::optional<Nanos> fraction(std::string_view text) {
  if (text.empty()) return Nanos(0);
  if (text.front() != '.' || text.size() == 1) return std::nullopt;
  int64_t nanos = 0, unit = 100'000'000;
  for (const char digit : text.substr(1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    nanos += (digit - '0') * unit;
    unit /= 10;
  }
  return Nanos(nanos);
}

std::optional<Nanos> calendar_moment(std::string_view text) {
  using namespace std::chrono;
  const auto y = take(text, 4, "-"), mo = take(text, 2, "-"), d = take(text, 2, " T"),
             h = take(text, 2, ":"), mi = take(text, 2, ":"), s = take(text, 2, "");
  if (!y || !mo || !d || !h || !mi || !s || *h > 23 || *mi > 59 || *s > 60) return std::nullopt;
  const year_month_day date{year(*y), month(static_cast<unsigned>(*mo)),
                            day(static_cast<unsigned>(*d))};
  const auto offset = offset_at_end(text);
  const auto rest = fraction(text);
  if (!date.ok() || !offset || !rest || *y < 1970 || *y > 2200) return std::nullopt;
  const Nanos at = sys_days(date).time_since_epoch() + hours(*h) + minutes(*mi) +
                   std::chrono::seconds(*s) + *rest - *offset;
  return at < Nanos(0) ? std::nullopt : std::optional(at);
}

std::optional<size_t> optional_column(const TextFile& file, const Header& header,
                                      std::string_view name) {
  const auto at = header.column(file, name);
  return at.ok() ? std::optional(*at) : std::nullopt;
}

}  // namespace

std::optional<Nanos> moment(std::string_view text) {
  if (const auto plain = number(text)) {
    if (*plain < 0 || *plain > kLatest) return std::nullopt;
    return Nanos(std::llround(*plain * 1e9));
  }
  return calendar_moment(text);
}

Result<ArrivalFile> ArrivalFile::open(const std::string& path) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(header, Header::read(file));
  ArrivalFile arrivals(std::move(file), std::move(header));
  const Header& h = arrivals.header_;
  if (const auto llm = optional_column(arrivals.file_, h, "TIMESTAMP")) {
    arrivals.time_ = *llm;
    SLUICE_ASSIGN(prompt, h.column(arrivals.file_, "ContextTokens"));
    SLUICE_ASSIGN(output, h.column(arrivals.file_, "GeneratedTokens"));
    arrivals.prompt_ = prompt;
    arrivals.output_ = output;
    return arrivals;
  }
  SLUICE_ASSIGN(time, h.column(arrivals.file_, "timestamp"));
  arrivals.time_ = time;
  arrivals.function_ = optional_column(arrivals.file_, h, "function");
  return arrivals;
}

Result<std::optional<Arrival>> ArrivalFile::next() {
  SLUICE_ASSIGN(line, file_.next_with_content());
  if (!line) return std::optional<Arrival>();
  SLUICE_ASSIGN(fields, header_.fields(file_, *line));
  const std::optional<Nanos> at = moment(fields[time_]);
  if (!at)
    return file_.error("timestamp: '" + clipped(std::string(fields[time_]), 40) +
                       "' is no time; allowed are seconds and times like 2023-11-16 18:15:46.68");
  if (!first_) first_ = last_ = *at;
  if (*at < last_) return file_.error("timestamp: it is before the one above; sort the file");
  last_ = *at;
  Arrival arrival{.at = *at - *first_};
  if (function_) {
    arrival.function = fields[*function_];
    if (arrival.function.empty()) return file_.error("function: it is empty");
  }
  constexpr double kMostTokens = 100'000'000;
  if (prompt_) {
    SLUICE_ASSIGN(prompt, number_in(file_, "ContextTokens", fields[*prompt_], 0, kMostTokens));
    SLUICE_ASSIGN(output, number_in(file_, "GeneratedTokens", fields[*output_], 0, kMostTokens));
    arrival.prompt_tokens = static_cast<int>(prompt);
    arrival.output_tokens = static_cast<int>(output);
  }
  return std::optional(std::move(arrival));
}

}  // namespace sluice::trace
