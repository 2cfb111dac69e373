#include "bench/recorded_steps.h"

#include <string_view>

#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::bench {
namespace {

constexpr double kMost = 1e12;
constexpr int kA100OfNode = 8, kT4OfNode = 4;

// The line that was read last, by the names of its columns.
class Line {
 public:
  static Result<Line> open(const std::string& path) {
    SLUICE_ASSIGN(file, trace::TextFile::open(path));
    SLUICE_ASSIGN(header, trace::Header::read(file));
    return Line(std::move(file), std::move(header));
  }

  // Returns false at the end of the file.
  Result<bool> next() {
    SLUICE_ASSIGN(line, file_.next_with_content());
    if (!line) return false;
    SLUICE_ASSIGN(fields, header_.fields(file_, *line));
    fields_ = std::move(fields);
    return true;
  }
  Result<std::string> text(std::string_view column) const {
    SLUICE_ASSIGN(at, header_.column(file_, column));
    return std::string(fields_[at]);
  }
  Result<double> number(std::string_view column, double least = 0) const {
    SLUICE_ASSIGN(at, header_.column(file_, column));
    return trace::number_in(file_, column, fields_[at], least, kMost);
  }
  Result<int> count(std::string_view column) const {
    SLUICE_ASSIGN(at, header_.column(file_, column));
    SLUICE_ASSIGN(value, trace::number_in(file_, column, fields_[at], 1, 1e6));
    return static_cast<int>(value);
  }

 private:
  Line(trace::TextFile file, trace::Header header)
      : file_(std::move(file)), header_(std::move(header)) {}

  trace::TextFile file_;
  trace::Header header_;
  std::vector<std::string_view> fields_;
};

// Calls `take` for every line of the file.
template <class Take>
Result<bool> each_line(const std::string& path, const Take& take) {
  SLUICE_ASSIGN(line, Line::open(path));
  while (true) {
    SLUICE_ASSIGN(more, line.next());
    if (!more) return true;
    SLUICE_TRY(take(line));
  }
}

}  // namespace

Result<StepsByName> read_pollux(const std::string& folder) {
  StepsByName all;
  for (const char* name : {"/placements.csv", "/scalability.csv"})
    SLUICE_TRY(each_line(folder + name, [&](const Line& line) -> Result<bool> {
      SLUICE_ASSIGN(application, line.text("application"));
      SLUICE_ASSIGN(workers, line.count("num_replicas"));
      SLUICE_ASSIGN(nodes, line.count("num_nodes"));
      SLUICE_ASSIGN(local, line.number("local_bsz", 1));
      SLUICE_ASSIGN(step, line.number("step_time_s"));
      SLUICE_ASSIGN(sync, line.number("sync_time_s"));
      all[application].push_back({workers, nodes, local, step, sync});
      return true;
    }));
  return all;
}

Result<StepsByName> read_elasticflow(const std::string& folder) {
  StepsByName all;
  SLUICE_TRY(each_line(folder + "/throughputs.csv", [&](const Line& line) -> Result<bool> {
    SLUICE_ASSIGN(gpu, line.text("gpu"));
    SLUICE_ASSIGN(model, line.text("model"));
    SLUICE_ASSIGN(batch, line.number("global_batch", 1));
    SLUICE_ASSIGN(gpus, line.count("gpus"));
    SLUICE_ASSIGN(rate, line.number("iters_per_s", 1e-9));
    const int of_node = gpu == "A100" ? kA100OfNode : kT4OfNode;
    all[gpu + " " + model].push_back(
        {gpus, (gpus + of_node - 1) / of_node, batch / gpus, 1 / rate});
    return true;
  }));
  return all;
}

Result<CollectivesByName> read_nccl(const std::string& folder) {
  CollectivesByName all;
  SLUICE_TRY(each_line(folder + "/nccl_tests.csv", [&](const Line& line) -> Result<bool> {
    SLUICE_ASSIGN(collective, line.text("collective"));
    if (collective != "all_reduce") return true;
    SLUICE_ASSIGN(config, line.text("config"));
    SLUICE_ASSIGN(nodes, line.count("nodes"));
    SLUICE_ASSIGN(gpus, line.count("gpus_per_node"));
    SLUICE_ASSIGN(bytes, line.number("bytes", 1));
    SLUICE_ASSIGN(micros, line.number("time_us_out_of_place"));
    all[config].push_back({nodes * gpus, bytes, micros / 1e6});
    return true;
  }));
  return all;
}

}  // namespace sluice::bench
