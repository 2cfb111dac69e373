#include "process/log_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/log.h"
#include "base/printable.h"

namespace sluice::node {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAside = ".1";

bool is_of_platform(const std::string& name) {
  return name == "node" || name == "control" || name == "gateway" || name == "zygote" ||
         name.starts_with("mps-") || name.starts_with("store-");
}

// Copies the end of the log, since its writer has it open, and empties it. A line written in
// between is lost. On a full disk the end is lost too, but the bound holds.
void move_aside(const std::string& path, Bytes most) {
  const Fd log(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat now {};
  if (!log.valid() || ::fstat(log.get(), &now) != 0 || now.st_size <= most) return;
  const Fd aside(::open((path + std::string(kAside)).c_str(),
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  off_t from = now.st_size - most;
  while (aside.valid() &&
         from<now.st_size&& ::copy_file_range(log.get(), &from, aside.get(), nullptr,
                                              static_cast<size_t>(now.st_size - from), 0)> 0) {
  }
  if (::ftruncate(log.get(), 0) != 0) log::warn("{}: {}", path, std::strerror(errno));
}

// Returns the instance that a file of the folder belongs to; empty if none.
std::string owner_of(fs::path file) {
  if (file.extension() == kAside) file = file.stem();
  return file.extension() == ".log" ? file.stem().string() : "";
}

}  // namespace

std::vector<std::string> logs_to_remove(std::vector<EndedLog> ended, FileTime now,
                                        const LogLimits& limits) {
  std::ranges::sort(ended, std::ranges::greater(), &EndedLog::written);
  std::vector<std::string> removed;
  size_t count = 0;
  Bytes all = 0;
  for (const EndedLog& log : ended) {
    ++count;
    all += log.bytes;
    if (now - log.written > limits.age || count > limits.count || all > limits.all)
      removed.push_back(log.name);
  }
  return removed;
}

void tidy_logs(const std::string& folder, const std::set<std::string>& living, FileTime now,
               const LogLimits& limits) {
  std::map<std::string, EndedLog> ended;
  std::vector<std::string> logs;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    std::error_code gone;
    const std::string name = owner_of(at->path().filename());
    const auto bytes = static_cast<Bytes>(at->file_size(gone));
    const FileTime written = at->last_write_time(gone);
    if (name.empty() || gone) continue;
    if (at->path().extension() == ".log") logs.push_back(at->path());
    if (is_of_platform(name) || living.contains(name)) continue;
    EndedLog& log = ended.try_emplace(name, EndedLog{name, 0, written}).first->second;
    log.bytes += bytes;
    log.written = std::max(log.written, written);
  }
  for (const std::string& log : logs) move_aside(log, limits.one);
  std::vector<EndedLog> all;
  for (auto& [name, log] : ended) all.push_back(std::move(log));
  for (const std::string& name : logs_to_remove(std::move(all), now, limits))
    for (const std::string& file : {name + ".log", name + ".log" + std::string(kAside)})
      fs::remove(fs::path(folder) / file, fault);
}

Fd open_log(const std::string& path) {
  Fd log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (log.valid()) return log;
  log::warn("{}: {}; its output is lost", path, std::strerror(errno));
  return Fd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
}

std::string last_lines(const std::string& path, size_t bytes) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  struct stat s {};
  fstat(fd.get(), &s);
  const auto size = static_cast<size_t>(std::max<off_t>(s.st_size, 0));
  std::string text(std::min(size, bytes), 0);
  const ssize_t n =
      pread(fd.get(), text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  if (text.size() < size) text.erase(0, text.find('\n') + 1);  // begins in mid-line
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::string lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines += (begin > 0 ? "\n" : "") + printable(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace sluice::node
