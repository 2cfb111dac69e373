#include "control/kube/model_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/system_error.h"
#include "control/kube/pod_additions.h"

namespace sluice::control {

Result<void> make_model_cache(const std::string& agents_data) {
  const std::string folder = agents_data + "/models";
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error(folder);
  if (chown(folder.c_str(), kPodUid, kPodUid) != 0) return system_error(folder);
  return {};
}

}  // namespace sluice::control
