// The parsers of what the MPS control program prints: whatever it is, what is read is bounded, and
// what is not is quoted in one printable line.
#include <cstdlib>

#include "gpu/mps_protocol.h"

namespace {

constexpr size_t kLongest = 200;

template <class T>
void check_quote(const sluice::Result<T>& read) {
  if (read.ok()) return;
  const std::string& message = read.error().message;
  if (message.size() > kLongest) std::abort();
  for (const char c : message)
    if (c < ' ' || c > '~') std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  const auto pids = sluice::node::pids_in(answer);
  if (pids.ok())
    for (const pid_t pid : *pids)
      if (pid <= 0) std::abort();
  check_quote(pids);
  check_quote(sluice::node::server_state_in(answer));
  check_quote(sluice::node::termination_in(answer));
  return 0;
}
