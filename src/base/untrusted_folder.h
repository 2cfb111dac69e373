// A folder that another user writes, as root reads it: neither it nor anything in it is reached
// over a link, and no name in it is opened that is not of the kind that was asked for.
//
// A value; any thread, one at a time.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/regular_file.h"
#include "base/result.h"

namespace sluice {

class UntrustedFolder {
 public:
  // Returns kNotFound if it does not exist; kInvalid if its last name is a link or no folder.
  static Result<UntrustedFolder> open(const std::string& path);

  Result<UntrustedFolder> folder(const std::string& name) const;
  Result<RegularFile> file(const std::string& name) const;
  // Returns the entries' names that begin so, in no order; `most` of them at most.
  std::vector<std::string> names(std::string_view prefix, size_t most) const;
  uid_t owner() const;
  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // Makes it, and all in it that `from` owns, the property of `to`: its user and group. Returns
  // kInvalid if it is nested more than 64 levels deep, or has entries of a third owner; those keep
  // their owner.
  Result<void> give(uid_t from, uid_t to) const;

 private:
  UntrustedFolder(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  static Result<UntrustedFolder> open_at(int folder, const std::string& name, std::string path);

  Fd fd_;
  std::string path_;
};

}  // namespace sluice
