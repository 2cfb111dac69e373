#include "hook/real_library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hook/loader.h"

namespace sluice::hook {
namespace {

// Where a bind mount over the driver's libraries keeps these themselves.
constexpr char kBehindMount[] = "/run/sluice/driver";

// Where drivers lie that the loader knows from its cache alone: distributions, WSL, containers,
// Tegra.
constexpr const char* kUsual[] = {
    "/usr/lib64",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/local/cuda/compat",
    "/usr/lib/aarch64-linux-gnu/nvidia",
    "/usr/lib/aarch64-linux-gnu/tegra",
};

}  // namespace

// A path may lead back here, or to a copy of this library, where it was mounted over the driver's.
void* RealLibrary::open_at(const char* path) const {
  void* library = sluice_dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr || sluice_dlsym(library, marker_) == nullptr) return library;
  sluice_dlclose(library);
  return nullptr;
}

void* RealLibrary::open_in(const char* folder) const {
  char path[PATH_MAX];
  const int length = snprintf(path, sizeof path, "%s/%s", folder, file_);
  return folder[0] == '/' && length < PATH_MAX ? open_at(path) : nullptr;
}

// LD_LIBRARY_PATH as it was when the program began, then the system's folders.
void* RealLibrary::open_where_the_loader_looks() const {
  Dl_info self;
  void* map = nullptr;
  Dl_serinfo size;
  if (sluice_dladdr1(self_, &self, &map, RTLD_DL_LINKMAP) == 0) return nullptr;
  if (sluice_dlinfo(map, RTLD_DI_SERINFOSIZE, &size) != 0) return nullptr;
  auto* folders = static_cast<Dl_serinfo*>(malloc(size.dls_size));
  void* found = nullptr;
  if (folders == nullptr) return nullptr;
  *folders = size;
  if (sluice_dlinfo(map, RTLD_DI_SERINFO, folders) == 0)
    for (unsigned i = 0; i < folders->dls_cnt && found == nullptr; ++i)
      found = open_in(folders->dls_serpath[i].dls_name);
  free(folders);
  return found;
}

void* RealLibrary::find() const {
  if (!has_loader()) return nullptr;
  const char* chosen = secure_getenv(chosen_by_);  // NOLINT(concurrency-mt-unsafe)
  if (chosen != nullptr) return open_at(chosen);
  void* found = open_in(kBehindMount);
  if (found == nullptr) found = open_where_the_loader_looks();
  for (const char* folder : kUsual)
    if (found == nullptr) found = open_in(folder);
  return found;
}

void* RealLibrary::open() {
  void* library = __atomic_load_n(&opened_, __ATOMIC_ACQUIRE);
  if (library != nullptr) return library;
  library = find();
  if (library != nullptr) __atomic_store_n(&opened_, library, __ATOMIC_RELEASE);
  return library;
}

void* RealLibrary::function(const char* name) {
  void* library = open();
  return library != nullptr ? sluice_dlsym(library, name) : nullptr;
}

const char* name_in(const char* names, unsigned entry) {
  while (entry-- > 0) names += strlen(names) + 1;
  return names;
}

}  // namespace sluice::hook
