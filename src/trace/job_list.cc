#include "trace/job_list.h"

#include <algorithm>
#include <cmath>

#include "base/words.h"
#include "trace/arrivals.h"
#include "trace/fields.h"
#include "trace/text_file.h"

namespace sluice::trace {
namespace {

constexpr double kMostEpochs = 1e6, kLongestJob = 1e8, kMostJobDevices = 10'000,
                 kMostPriority = 1000;
constexpr size_t kMostListed = 1'000'000;

// The columns of a list, and a line's fields by them.
class Columns {
 public:
  static Result<Columns> of(TextFile& file, const JobListOptions& options) {
    Columns columns(file);
    SLUICE_ASSIGN(header, Header::read(file));
    for (const std::string& field : job_list_fields()) {
      const auto renamed = options.columns.find(field);
      const std::string& name = renamed == options.columns.end() ? field : renamed->second;
      const auto at = header.column(file, name);
      if (at.ok())
        columns.at_[field] = {*at, name};
      else if (renamed != options.columns.end() || field == "submit")
        return at.error();
    }
    columns.header_ = std::move(header);
    return columns;
  }

  Result<void> take(std::string_view line) {
    SLUICE_ASSIGN(fields, header_.fields(*file_, line));
    fields_ = std::move(fields);
    return {};
  }
  std::string text(const std::string& field) const {
    const auto at = at_.find(field);
    return at == at_.end() ? std::string() : std::string(fields_[at->second.place]);
  }
  // Returns 0 for a column that is not there or an empty field.
  Result<double> number(const std::string& field, double least, double most) const {
    if (text(field).empty()) return 0.0;
    return number_in(*file_, at_.at(field).name, text(field), least, most);
  }
  Result<Nanos> time(const std::string& field) const {
    const std::string value = text(field);
    if (const auto at = moment(value)) return *at;
    return file_->error(at_.at(field).name + ": '" + clipped(value, 40) +
                        "' is no time; allowed are seconds and times like 2023-11-16 18:15:46");
  }

 private:
  explicit Columns(TextFile& file) : file_(&file) {}

  struct Column {
    size_t place = 0;
    std::string name;
  };
  TextFile* file_;
  Header header_;
  std::map<std::string, Column> at_;  // by field
  std::vector<std::string_view> fields_;
};

Result<ListedJob> job_of(const Columns& row) {
  ListedJob job{.name = row.text("name"), .model = row.text("model")};
  SLUICE_ASSIGN(submitted, row.time("submit"));
  SLUICE_ASSIGN(epochs, row.number("epochs", 0, kMostEpochs));
  SLUICE_ASSIGN(duration, row.number("duration", 0, kLongestJob));
  SLUICE_ASSIGN(devices, row.number("devices", 0, kMostJobDevices));
  SLUICE_ASSIGN(priority, row.number("priority", -kMostPriority, kMostPriority));
  job.submitted = submitted;
  job.epochs = epochs;
  job.duration = Nanos(std::llround(duration * 1e9));
  job.devices = static_cast<int>(std::ceil(devices));
  job.priority = static_cast<int>(priority);
  return job;
}

}  // namespace

const std::vector<std::string>& job_list_fields() {
  static const std::vector<std::string> kFields{"submit",   "name",    "model",   "epochs",
                                                "duration", "devices", "priority"};
  return kFields;
}

Result<std::vector<ListedJob>> read_job_list(const std::string& path,
                                             const JobListOptions& options) {
  SLUICE_ASSIGN(file, TextFile::open(path));
  SLUICE_ASSIGN(columns, Columns::of(file, options));
  std::vector<ListedJob> jobs;
  while (true) {
    SLUICE_ASSIGN(line, file.next_with_content());
    if (!line) break;
    SLUICE_TRY(columns.take(*line));
    SLUICE_ASSIGN(job, job_of(columns));
    if (jobs.size() == kMostListed) return file.error("there are more than 1000000 jobs");
    jobs.push_back(std::move(job));
  }
  std::ranges::stable_sort(jobs, {}, &ListedJob::submitted);
  jobs.erase(jobs.begin(), jobs.begin() + static_cast<long>(std::min(options.skip, jobs.size())));
  if (jobs.size() > options.most) jobs.resize(options.most);
  if (jobs.empty()) return Error{ErrorKind::kInvalid, path + ": it has no such job"};
  const Nanos first = jobs.front().submitted;
  for (ListedJob& job : jobs) job.submitted -= first;
  return jobs;
}

}  // namespace sluice::trace
