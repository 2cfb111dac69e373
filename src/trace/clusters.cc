#include "trace/clusters.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/words.h"
#include "trace/arrivals.h"
#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::trace {
namespace {

constexpr double kMostMillicores = 1e7, kMostMemoryMib = 1e9, kMostGpus = 1024;
constexpr size_t kMostRecords = 1'000'000;

// A line's fields by the names of their columns.
class Row {
 public:
  Row(const TextFile& file, const Header& header, std::vector<std::string_view> fields)
      : file_(file), header_(header), fields_(std::move(fields)) {}

  Result<std::string> text(std::string_view column) const {
    SLUICE_ASSIGN(at, header_.column(file_, column));
    return std::string(fields_[at]);
  }
  bool has(std::string_view column) const { return header_.column(file_, column).ok(); }
  // Returns nothing of a column that the file does not have.
  std::string text_if_any(std::string_view column) const {
    const auto at = header_.column(file_, column);
    return at.ok() ? std::string(fields_[*at]) : std::string();
  }
  Result<double> number(std::string_view column, double most) const {
    SLUICE_ASSIGN(at, header_.column(file_, column));
    return number_in(file_, column, fields_[at], 0, most);
  }
  Result<int> whole(std::string_view column, double most) const {
    SLUICE_ASSIGN(value, number(column, most));
    if (value != std::floor(value))
      return file_.error(std::string(column) + ": it is no whole number");
    return static_cast<int>(value);
  }
  Result<Bytes> mebibytes(std::string_view column) const {
    SLUICE_ASSIGN(value, number(column, kMostMemoryMib));
    return static_cast<Bytes>(value) << 20;
  }

 private:
  const TextFile& file_;
  const Header& header_;
  std::vector<std::string_view> fields_;
};

// Every line of a CSV file, as `read` makes it.
template <class Record, class Read>
Result<std::vector<Record>> records(const std::string& path, const Read& read) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(header, Header::read(file));
  std::vector<Record> all;
  while (true) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) return all;
    if (all.size() == kMostRecords) return file.error("the file has more than 1000000 lines");
    SLUICE_ASSIGN(fields, header.fields(file, *line));
    SLUICE_ASSIGN(record, read(file, Row(file, header, std::move(fields))));
    all.push_back(std::move(record));
  }
}

Result<RecordedNode> node_in(const TextFile& file, const Row& row) {
  SLUICE_ASSIGN(name, row.text("sn"));
  if (name.empty()) return file.error("sn: it is empty");
  SLUICE_ASSIGN(millicores, row.whole("cpu_milli", kMostMillicores));
  SLUICE_ASSIGN(memory, row.mebibytes("memory_mib"));
  SLUICE_ASSIGN(gpus, row.whole("gpu", kMostGpus));
  SLUICE_ASSIGN(model, row.text("model"));
  return RecordedNode{name, millicores, memory, gpus, model};
}

// "V100M16|V100M32".
std::vector<std::string> alternatives(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t bar = std::min(text.find('|'), text.size());
    if (bar > 0) names.emplace_back(text.substr(0, bar));
    text.remove_prefix(std::min(bar + 1, text.size()));
  }
  return names;
}

Result<RecordedJob> pod_in(const TextFile& file, const Row& row) {
  constexpr double kLatest = 4e9;  // a time of this century, in seconds
  SLUICE_ASSIGN(name, row.text("name"));
  SLUICE_ASSIGN(gpus, row.whole("num_gpu", kMostGpus));
  SLUICE_ASSIGN(share, row.whole("gpu_milli", 1000));
  SLUICE_ASSIGN(millicores, row.whole("cpu_milli", kMostMillicores));
  SLUICE_ASSIGN(memory, row.mebibytes("memory_mib"));
  double begin = 0;
  if (row.has("creation_time") || row.has("deletion_time")) {
    SLUICE_ASSIGN(created, row.number("creation_time", kLatest));
    begin = created;
  }
  std::optional<Nanos> end;
  if (!row.text_if_any("deletion_time").empty()) {
    SLUICE_ASSIGN(at, row.number("deletion_time", kLatest));
    if (at < begin) return file.error("deletion_time: it is before creation_time");
    end = from_seconds(at);
  }
  return RecordedJob{.name = name,
                     .kind = row.text_if_any("qos"),
                     .begin = from_seconds(begin),
                     .end = end,
                     .gpus = gpus,
                     .request = {share},
                     .limit = {share},
                     .memory = {},
                     .millicores = millicores,
                     .host_memory = memory,
                     .gpu_models = alternatives(row.text_if_any("gpu_spec"))};
}

// Python writes quotes singly; no name has one.
nlohmann::json dictionary(std::string_view line) {
  std::string text(line);
  for (char& c : text)
    if (c == '\'') c = '"';
  return nlohmann::json::parse(text, nullptr, false);
}

std::optional<Share> share_in(const nlohmann::json& j) {
  if (!j.is_number()) return std::nullopt;
  const double value = j.get<double>();
  if (!(value >= 0 && value <= 1)) return std::nullopt;
  return Share{static_cast<int>(std::lround(value * 1000))};
}

// An instance of Dilu's list, without its times. Memory stands there in gigabytes, one per GPU.
Result<RecordedJob> dilu_job(const TextFile& file, const nlohmann::json& i) {
  const auto text = [&](const char* key) {
    return i.contains(key) && i[key].is_string() ? i[key].get<std::string>() : std::string();
  };
  RecordedJob job{.name = text("service_name"), .kind = text("type")};
  if (job.name.empty()) return file.error("service_name: there is none");
  if (job.kind != "inference" && job.kind != "llm-inference" && job.kind != "training")
    return file.error("type: '" + clipped(job.kind, 40) +
                      "' is none of inference, llm-inference and training");
  const auto request = share_in(i.value("sm_requests", nlohmann::json()));
  const auto limit = share_in(i.value("sm_limits", nlohmann::json()));
  if (!request || !limit || *limit < *request)
    return file.error("sm_requests and sm_limits: allowed are 0 to 1, the limit no less");
  job.request = *request;
  job.limit = *limit;
  for (const nlohmann::json& m : i.value("memory", nlohmann::json::array())) {
    if (!m.is_number() || m.get<double>() < 0 || m.get<double>() > 1e6)
      return file.error("memory: allowed are gigabytes from 0 to 1000000");
    job.memory.push_back(static_cast<Bytes>(m.get<double>() * 1e9));
  }
  const nlohmann::json gpus = i.value("gpu_num", nlohmann::json());
  if (!gpus.is_number_integer() || gpus < 1 || gpus > kMostGpus ||
      job.memory.size() != gpus.get<size_t>())
    return file.error("gpu_num: it is not the number of entries in memory");
  job.gpus = gpus.get<int>();
  return job;
}

struct DiluEvent {
  Nanos at{};
  bool start = false;
  nlohmann::json instance;
};

Result<DiluEvent> dilu_event(const TextFile& file, std::string_view line) {
  const nlohmann::json j = dictionary(line);
  if (!j.is_object()) return file.error("the line is no dictionary");
  for (const char* key : {"Time", "Action"})
    if (!j.contains(key) || !j[key].is_string())
      return file.error(std::string(key) + ": there is no such text");
  if (!j.contains("Instance") || !j["Instance"].is_object())
    return file.error("Instance: there is no such dictionary");
  const std::optional<Nanos> at = moment(j["Time"].get<std::string>());
  if (!at) return file.error("Time: it is no time like 2024-06-19 15:46:09");
  const std::string action = j["Action"];
  if (action != "start" && action != "delete")
    return file.error("Action: '" + clipped(action, 40) + "' is neither start nor delete");
  return DiluEvent{*at, action == "start", j["Instance"]};
}

}  // namespace

Result<std::vector<RecordedNode>> read_openb_nodes(const std::string& path) {
  return records<RecordedNode>(path, node_in);
}

Result<std::vector<RecordedJob>> read_openb_pods(const std::string& path) {
  return records<RecordedJob>(path, pod_in);
}

Result<std::vector<RecordedJob>> read_dilu_instances(const std::string& path) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  std::vector<RecordedJob> jobs;
  std::map<std::string, size_t> running;  // by name
  std::optional<Nanos> first;
  Nanos last{};
  while (true) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) return jobs;
    SLUICE_ASSIGN(event, dilu_event(file, *line));
    if (!first) first = last = event.at;
    if (event.at < last) return file.error("Time: it is before the one above");
    last = event.at;
    SLUICE_ASSIGN(job, dilu_job(file, event.instance));
    if (event.start) {
      if (jobs.size() == kMostRecords) return file.error("the file has more than 1000000 starts");
      if (!running.emplace(job.name, jobs.size()).second)
        return file.error("service_name: '" + job.name + "' runs already");
      job.begin = event.at - *first;
      jobs.push_back(std::move(job));
    } else {
      const auto found = running.find(job.name);
      if (found == running.end())
        return file.error("service_name: '" + job.name + "' does not run");
      jobs[found->second].end = event.at - *first;
      running.erase(found);
    }
  }
}

}  // namespace sluice::trace
