#include "runtime/process_title.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

namespace sluice::runtime {

// /proc/self/stat: fields 48 and 49 locate the arguments. Fields are counted from the last ')',
// behind field 2: a process's name may hold anything.
void set_process_title(const char* name, const std::string& title) {
  ::prctl(PR_SET_NAME, name);
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  std::string skipped;
  for (int field = 3; field < 48; ++field) fields >> skipped;
  uintptr_t begin = 0, end = 0;
  if (!(fields >> begin >> end) || begin == 0 || end <= begin) return;
  auto* room = reinterpret_cast<char*>(begin);  // NOLINT(performance-no-int-to-ptr)
  std::memset(room, 0, end - begin);
  title.copy(room, end - begin - 1);
}

}  // namespace sluice::runtime
