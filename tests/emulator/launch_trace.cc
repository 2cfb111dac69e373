#include "tests/emulator/launch_trace.h"

#include <algorithm>
#include <optional>

#include "tests/emulator/words.h"

namespace sluice::emulator {
namespace {

using Kind = TraceStep::Kind;

constexpr std::uint32_t kMostStreams = 1024;
constexpr std::uint64_t kMostNs = 3'600'000'000'000;  // an hour

// One line's words; the first that is wrong is remembered.
class Line {
 public:
  Line(std::string_view text, std::string& why) : words_(text), why_(why) {}

  std::optional<std::string_view> next() { return words_.next(); }

  // The number of the next word, which is `key`=NUMBER.
  std::optional<std::uint64_t> number(std::string_view key, std::uint64_t least,
                                      std::uint64_t most) {
    const auto word = words_.next();
    const auto [name, value] = split(word.value_or(""));
    const auto number = number_of(value);
    if (name == key && number && *number >= least && *number <= most) return number;
    why_ = std::string(word.value_or("nothing")) + ": has to be " + std::string(key) + "=" +
           std::to_string(least) + " … " + std::to_string(most);
    return std::nullopt;
  }

  bool wrong(std::string_view word, std::string_view allowed) {
    why_ = std::string(word) + ": has to be " + std::string(allowed);
    return false;
  }

  bool over() {
    const auto word = words_.next();
    return !word || wrong(*word, "the end of the line");
  }

 private:
  Words words_;
  std::string& why_;
};

bool read_device(Line& line, LaunchTrace& trace) {
  const auto sms = line.number("sms", 1, 1024);
  if (!sms) return false;
  trace.sms = static_cast<std::uint32_t>(*sms);
  return line.over();
}

bool read_kernel(Line& line, LaunchTrace& trace) {
  const auto blocks = line.number("blocks", 1, UINT32_MAX);
  const auto ns = blocks ? line.number("ns", 1, kMostNs) : std::nullopt;
  if (!ns) return false;
  TraceKernel kernel{.name = {}, .blocks = static_cast<std::uint32_t>(*blocks), .ns = *ns};
  while (const auto word = line.next())
    kernel.name += (kernel.name.empty() ? "" : " ") + std::string(*word);
  trace.kernels.push_back(std::move(kernel));
  return true;
}

bool read_graph(Line& line, LaunchTrace& trace) {
  std::vector<std::uint32_t> kernels;
  while (const auto word = line.next()) {
    const auto kernel = number_of(*word);
    if (!kernel || *kernel >= trace.kernels.size())
      return line.wrong(*word, "a kernel of the lines before");
    kernels.push_back(static_cast<std::uint32_t>(*kernel));
  }
  if (kernels.empty()) return line.wrong("nothing", "the kernels of the graph");
  trace.graphs.push_back(std::move(kernels));
  return true;
}

// … stream=N gap=NS
bool read_place(Line& line, TraceStep step, LaunchTrace& trace) {
  if (step.kind != Kind::kSync) {
    const auto stream = line.number("stream", 0, kMostStreams - 1);
    if (!stream) return false;
    step.stream = static_cast<std::uint32_t>(*stream);
    trace.streams = std::max(trace.streams, step.stream + 1);
  }
  const auto gap = line.number("gap", 0, kMostNs);
  if (!gap) return false;
  step.gap_ns = *gap;
  trace.steps.push_back(step);
  return line.over();
}

bool read_launch(Line& line, LaunchTrace& trace) {
  const auto word = line.next().value_or("nothing");
  const auto [name, value] = split(word);
  const auto number = number_of(value);
  const bool kernel = name == "kernel";
  if (!number || (!kernel && name != "graph") ||
      *number >= (kernel ? trace.kernels.size() : trace.graphs.size()))
    return line.wrong(word, "kernel=N or graph=N, one of the lines before");
  return read_place(
      line,
      {.kind = kernel ? Kind::kKernel : Kind::kGraph, .what = static_cast<std::uint32_t>(*number)},
      trace);
}

bool read_copy(Line& line, LaunchTrace& trace) {
  constexpr std::pair<std::string_view, Kind> kWays[] = {{"to", Kind::kCopyTo},
                                                         {"from", Kind::kCopyFrom},
                                                         {"within", Kind::kCopyWithin},
                                                         {"set", Kind::kSet}};
  const auto word = line.next().value_or("nothing");
  const auto* way = std::ranges::find(kWays, word, [](const auto& w) { return w.first; });
  if (way == std::end(kWays)) return line.wrong(word, "to, from, within or set");
  const auto bytes = line.number("bytes", 1, std::uint64_t{1} << 40);
  return bytes && read_place(line, {.kind = way->second, .bytes = *bytes}, trace);
}

bool read_line(std::string_view text, LaunchTrace& trace, std::string& why) {
  Line line(text, why);
  const auto what = line.next();
  if (!what) return true;
  if ((*what == "trace") != (trace.sms == 0)) return line.wrong(*what, "trace, once, at first");
  if (*what == "trace") return read_device(line, trace);
  if (*what == "kernel") return read_kernel(line, trace);
  if (*what == "graph") return read_graph(line, trace);
  if (*what == "launch") return read_launch(line, trace);
  if (*what == "copy") return read_copy(line, trace);
  if (*what == "sync") return read_place(line, {}, trace);
  return line.wrong(*what, "trace, kernel, graph, launch, copy or sync");
}

}  // namespace

bool read_trace(std::string_view text, LaunchTrace& trace, std::string& why) {
  trace = {};
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with('#')) continue;
    if (read_line(line, trace, why)) continue;
    why = "line " + std::to_string(number) + ": " + why;
    return false;
  }
  if (!trace.steps.empty()) return true;
  why = "the trace has no launch, copy or sync";
  return false;
}

// duration = ⌈blocks ÷ SMs⌉ × ns of a block
std::string module_of(const LaunchTrace& trace) {
  std::string text;
  for (size_t i = 0; i < trace.kernels.size(); ++i) {
    const TraceKernel& kernel = trace.kernels[i];
    const std::uint64_t waves = (std::uint64_t{kernel.blocks} + trace.sms - 1) / trace.sms;
    text += "kernel k" + std::to_string(i) +
            " ns=" + std::to_string(std::max<std::uint64_t>((kernel.ns + waves / 2) / waves, 1)) +
            "\n";
  }
  return text;
}

}  // namespace sluice::emulator
