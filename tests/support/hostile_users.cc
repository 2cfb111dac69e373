#include "tests/support/hostile_users.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/system_error.h"
#include "tests/support/gateway_bed.h"

namespace sluice::bench {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kUsers[] = {"stranger", "script"};
constexpr const char* kNobody = "65534";

}  // namespace

Result<HostileUsers> HostileUsers::start(PlatformBed& bed, const std::string& program, bool busy,
                                         Nanos lasts, uint64_t seed) {
  char folder[] = "/tmp/sluice-hostile-XXXXXX";
  if (::mkdtemp(folder) == nullptr) return system_error(folder);
  HostileUsers users(bed, folder);
  if (::chmod(folder, 01777) != 0) return system_error(folder);
  const std::string copy = users.folder_ + "/hostile_user.py";
  std::error_code fault;
  fs::copy_file(program, copy, fault);
  if (fault) return Error{ErrorKind::kNotFound, program + ": " + fault.message()};
  ::chmod(copy.c_str(), 0644);
  SLUICE_TRY(users.tell_paths());

  const auto command = [&](const std::string& user) {
    std::vector<std::string> words = {"/usr/bin/python3", copy, users.report_of(user)};
    words.push_back(std::to_string(seconds(lasts)));
    words.push_back(std::to_string(seed));
    words.push_back(std::to_string(bed.api_port()));
    words.push_back(users.folder_ + "/paths");
    if (busy) words.push_back("--busy");
    return words;
  };
  const std::string job = busy ? "busy" : "hostile";
  std::string list;
  for (const std::string& word : command(kUsers[1])) list += "\"" + word + "\", ";
  SLUICE_TRY(
      bed.apply("apiVersion: sluice.dev/v1alpha1\nkind: TrainingFunction\nmetadata: {name: " + job +
                "}\nspec: {command: [" + list + "--own, default/" + job +
                "@1/], length: 1, mostDevices: 1}\n"));
  std::vector<std::string> words = {"/usr/bin/setpriv", std::string("--reuid=") + kNobody,
                                    std::string("--regid=") + kNobody, "--clear-groups"};
  for (const std::string& word : command(kUsers[0])) words.push_back(word);
  start_program(words, users.folder_ + "/stranger.log");
  return users;
}

HostileUsers::~HostileUsers() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<void> HostileUsers::tell_paths() const {
  const std::string paths = folder_ + "/paths";
  std::ofstream out(paths + ".new");
  std::error_code fault;
  for (const std::string& top : {bed_->data(), fs::canonical(bed_->data() + "/run").string()})
    for (fs::recursive_directory_iterator entry(top, fault), end; entry != end && !fault;
         entry.increment(fault))
      out << entry->path().string() << "\n";
  if (!out.flush()) return system_error(paths);
  fs::rename(paths + ".new", paths, fault);
  if (fault) return Error{ErrorKind::kInternal, paths + ": " + fault.message()};
  return {};
}

bool HostileUsers::ended() const {
  return std::ranges::all_of(kUsers, [&](const char* u) { return fs::exists(report_of(u)); });
}

Result<Hostilities> HostileUsers::told() {
  Hostilities all;
  for (const char* user : kUsers) {
    const json said = json::parse(std::ifstream(report_of(user)), nullptr, false);
    if (!said.is_object())
      return Error{ErrorKind::kNotFound, std::string("the hostile ") + user + " told nothing"};
    for (const char* what : {"read", "written", "made", "signalled"})
      for (const json& item : said[what])
        all.taken.push_back(std::string(user) + " " + what + ": " + item.dump());
    all.tried += said["tried"].get<int64_t>();
    all.connections += said["connections"].get<int64_t>();
    all.sent_bytes += said["sent"].get<int64_t>();
  }
  return all;
}

}  // namespace sluice::bench
