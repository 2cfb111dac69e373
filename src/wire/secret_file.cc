#include "wire/secret_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/untrusted_folder.h"

namespace sluice::wire {
namespace {

constexpr size_t kLargest = 64 << 10;  // half of what the kernel takes as one variable
constexpr size_t kLongestName = 255;

Error invalid(const std::string& path, const std::string& why) {
  return {ErrorKind::kInvalid, path + ": " + why};
}

Result<UntrustedFolder> open_secrets(const std::string& path) {
  auto folder = UntrustedFolder::open(path);
  if (!folder.ok()) return Error{ErrorKind::kInvalid, folder.error().message};
  struct stat about {};
  const bool is_ours = ::fstat(folder->fd(), &about) == 0 && about.st_uid == geteuid() &&
                       (about.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  if (!is_ours)
    return invalid(path, "must be a folder of the platform's user that no other can write to");
  return folder;
}

}  // namespace

Result<void> check_secret_name(const std::string& name) {
  const auto plain = [](unsigned char c) { return c < 128 && std::isalnum(c) != 0; };
  const auto allowed = [&](unsigned char c) {
    return plain(c) || c == '-' || c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kLongestName && plain(name[0]) &&
      std::ranges::all_of(name, allowed))
    return {};
  return Error{ErrorKind::kInvalid,
               "\"" + name.substr(0, 60) +
                   "\" is no name of a file in DATA/secrets, the only folder that secrets are read "
                   "from: letters, digits and - _ . are allowed, at most 255, the first a letter "
                   "or digit"};
}

Result<std::string> read_secret(const std::string& folder, const std::string& name) {
  SLUICE_TRY(check_secret_name(name));
  SLUICE_ASSIGN(secrets, open_secrets(folder));
  SLUICE_ASSIGN(file, secrets.file(name));
  if ((file.about().st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return invalid(folder + "/" + name, "must be its owner's alone (chmod 600)");
  SLUICE_ASSIGN(value, file.text(kLargest));
  if (value.find('\0') != value.npos)
    return invalid(folder + "/" + name, "has a NUL, which no variable can have");
  if (value.ends_with('\n')) value.pop_back();
  return std::move(value);
}

}  // namespace sluice::wire
