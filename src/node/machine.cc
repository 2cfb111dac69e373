#include "node/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace sluice::node {
namespace {

// Returns the text behind "key…:" in a file of such lines; empty if there is none.
std::string line_of(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t colon = line.find(':');
    const size_t text = line.find_first_not_of(" \t", colon + 1);
    return colon == line.npos || text == line.npos ? "" : line.substr(text);
  }
  return "";
}

// A group without a limit says "max" (v2), or a number beyond all memory (v1).
Bytes limit_in(const std::string& path, Bytes otherwise) {
  std::ifstream file(path);
  Bytes limit = 0;
  return file >> limit && limit > 0 ? std::min(limit, otherwise) : otherwise;
}

}  // namespace

Result<Machine> this_machine() {
  Machine m;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0)
    return Error{ErrorKind::kInternal, std::string("sched_getaffinity: ") + std::strerror(errno)};
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &cores)) m.cores.push_back(core);
  m.memory = static_cast<Bytes>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  m.memory = limit_in("/sys/fs/cgroup/memory.max", m.memory);
  m.memory = limit_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", m.memory);
  m.cpu_model = line_of("/proc/cpuinfo", "model name");
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  m.node = name;
  return m;
}

Bytes peak_memory(pid_t pid) {
  const std::string text = line_of("/proc/" + std::to_string(pid) + "/status", "VmHWM");
  return std::atoll(text.c_str()) * 1024;
}

}  // namespace sluice::node
