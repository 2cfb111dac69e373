#include "cli/kept_trials.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>

#include "base/replace_file.h"
#include "cli/session.h"
#include "wire/json/json.h"

namespace sluice::cli {
namespace {

constexpr UnixMillis kCountFor = 3'600'000;

// "model name	: Intel(R) Xeon(R) …" of /proc/cpuinfo.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.find(':') + 2, line.size()));
  return "an unnamed processor";
}

std::string file_name(const control::Profile& of) {
  std::string name = of.content + "-" + of.device.name + ".json";
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.'; }, '-');
  return name;
}

}  // namespace

std::string conditions_here() {
  utsname system{};
  ::uname(&system);
  return std::string("Sluice ") + SLUICE_VERSION + ", " + processor() + ", " + system.sysname +
         " " + system.release;
}

KeptTrials::KeptTrials(const std::string& folder, const control::Profile& of, UnixMillis now)
    : profile_(of) {
  if (folder.empty()) return;
  std::error_code fault;
  std::filesystem::create_directories(folder, fault);
  path_ = folder + "/" + file_name(of);
  const auto text = read_file(path_, size_t{1} << 20);
  const auto parsed = text.ok() ? wire::parse_json(*text) : Result<nlohmann::json>(text.error());
  if (!parsed.ok()) return;
  const auto before = control::profile_from(*parsed);
  const auto recent = [&] {
    return now - before->measured_at < kCountFor && now >= before->measured_at;
  };
  if (!before.ok() || before->content != of.content || before->device != of.device ||
      before->conditions != of.conditions || !recent())
    return;
  known_ = profile_.points = before->points;
}

const MeasuredPoint* KeptTrials::find(const Configuration& at) const {
  const auto found = std::ranges::find(known_, at, &MeasuredPoint::at);
  return found == known_.end() ? nullptr : &*found;
}

void KeptTrials::keep(const MeasuredPoint& point) {
  if (path_.empty()) return;
  profile_.points.push_back(point);
  (void)replace_file(path_, control::to_json(profile_).dump());
}

void KeptTrials::forget() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace sluice::cli
