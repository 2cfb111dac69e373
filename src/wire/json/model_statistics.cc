#include "wire/json/model_statistics.h"

#include <charconv>

namespace sluice::wire {
namespace {

using nlohmann::json;

constexpr size_t kMostParts = 8;
// The bounds of a report. An instance is not trusted, and the sums outlive it.
constexpr int64_t kLargestDuration = Nanos(std::chrono::hours(1)).count();
constexpr int64_t kLargestBatch = 1024;  // and as many executions
constexpr size_t kMostBatches = 256;     // sizes of batches that are kept apart

// Takes the next number from the front of `text`, with one space before it unless it is the first.
std::optional<int64_t> take(std::string_view& text, bool first) {
  if (!first && !text.starts_with(' ')) return std::nullopt;
  if (!first) text.remove_prefix(1);
  int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || number < 0 || number > kLargestDuration) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

json json_of(const Durations& d) {
  return {{"count", d.count}, {"ns", d.total.count()}};
}

}  // namespace

std::string to_text(const ComputeReport& report) {
  std::string text = std::to_string(report.queue.count());
  for (const ComputeReport::Part& p : report.parts) {
    text += ';';
    const int64_t numbers[] = {p.batch, p.executions, p.input.count(), p.infer.count(),
                               p.output.count()};
    for (const int64_t number : numbers) text += ' ' + std::to_string(number);
  }
  return text;
}

std::optional<ComputeReport> compute_report_from(std::string_view text) {
  ComputeReport report;
  const auto queue = take(text, true);
  if (!queue) return std::nullopt;
  report.queue = Nanos(*queue);
  while (text.starts_with(';')) {
    text.remove_prefix(1);
    int64_t numbers[5];
    for (int64_t& number : numbers) {
      const auto taken = take(text, false);
      if (!taken) return std::nullopt;
      number = *taken;
    }
    if (report.parts.size() == kMostParts || numbers[0] > kLargestBatch ||
        numbers[1] > kLargestBatch)
      return std::nullopt;
    report.parts.push_back({static_cast<int>(numbers[0]), static_cast<int>(numbers[1]),
                            Nanos(numbers[2]), Nanos(numbers[3]), Nanos(numbers[4])});
  }
  if (!text.empty()) return std::nullopt;
  return report;
}

void ModelStatistics::succeeded(uint64_t of_inferences, Nanos whole, Nanos waited,
                                const ComputeReport& report) {
  inferences += of_inferences;
  success.add(whole);
  queue.add(waited);
  ComputeReport::Part all;
  for (const ComputeReport::Part& p : report.parts) {
    all.input += p.input;
    all.infer += p.infer;
    all.output += p.output;
    if (p.executions == 0) continue;
    executions += static_cast<uint64_t>(p.executions);
    if (by_batch.size() == kMostBatches && !by_batch.contains(p.batch)) continue;
    PerBatch& batch = by_batch[p.batch];
    const auto times = static_cast<uint64_t>(p.executions);
    batch.input.add(p.input, times);
    batch.infer.add(p.infer, times);
    batch.output.add(p.output, times);
  }
  if (report.parts.empty()) return;
  input.add(all.input);
  infer.add(all.infer);
  output.add(all.output);
}

json to_json(const std::string& name, const std::string& version, const ModelStatistics& s) {
  json batches = json::array();
  for (const auto& [size, b] : s.by_batch)
    batches.push_back({{"batch_size", size},
                       {"compute_input", json_of(b.input)},
                       {"compute_infer", json_of(b.infer)},
                       {"compute_output", json_of(b.output)}});
  return {{"name", name},
          {"version", version},
          {"last_inference", s.last_inference},
          {"inference_count", s.inferences},
          {"execution_count", s.executions},
          {"inference_stats",
           {{"success", json_of(s.success)},
            {"fail", json_of(s.fail)},
            {"queue", json_of(s.queue)},
            {"compute_input", json_of(s.input)},
            {"compute_infer", json_of(s.infer)},
            {"compute_output", json_of(s.output)},
            {"cache_hit", json_of({})},
            {"cache_miss", json_of({})}}},
          {"batch_stats", batches},
          {"memory_usage", json::array()}};
}

}  // namespace sluice::wire
