// Turns a system call's failure into an error: its kind, and "WHAT: No such file or directory".
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

#include "base/result.h"

namespace sluice {

inline Error system_error(const std::string& what, int code = errno) {
  const bool denied = code == EACCES || code == EPERM || code == EROFS;
  return {denied ? ErrorKind::kDenied : ErrorKind::kInternal,
          what + ": " + std::generic_category().message(code)};
}

}  // namespace sluice
