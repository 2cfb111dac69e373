#include "runtime/gate.h"

namespace sluice::runtime {

Result<void> Gate::adopt(std::span<Fd> pages) {
  if (pages.size() != 3)
    return Error{ErrorKind::kInvalid, "pages: permit, usage and bell are three descriptors, not " +
                                          std::to_string(pages.size())};
  auto* process = sluice_process_of(&gate_);
  const int fds[3] = {pages[0].get(), pages[1].get(), pages[2].get()};
  // Pages that were handed over have no connection.
  if (process == nullptr || !sluice_attach_pages(&gate_, process, fds, -1))
    return Error{ErrorKind::kInvalid, "pages: not a permit and a usage page of our version"};
  for (Fd& fd : pages) fd.release();
  return {};
}

}  // namespace sluice::runtime
