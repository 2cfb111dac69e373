#include "node/data_paths.h"

#include <sys/un.h>

#include <algorithm>
#include <cctype>

#include "wire/zygote.h"

namespace sluice::node {

Result<void> check_id(const InstanceId& id, const DataPaths& paths) {
  const size_t longest =
      std::min(sizeof(wire::StartInstance::id),
               sizeof(sockaddr_un::sun_path) -
                   std::min(sizeof(sockaddr_un::sun_path), paths.socket_of("").size())) -
      1;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (id.empty() || id.front() == '.' || id.front() == '-' || !std::ranges::all_of(id, allowed))
    return Error{ErrorKind::kInvalid,
                 "id: '" + id + "' is not a name of letters, digits, '-', '_' and '.'"};
  if (id.size() > longest)
    return Error{ErrorKind::kInvalid, "id: '" + id + "' is longer than " + std::to_string(longest) +
                                          " characters (a socket is called so)"};
  return {};
}

}  // namespace sluice::node
