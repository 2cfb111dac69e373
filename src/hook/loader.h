// The loader's functions by their oldest versions, so that this library loads with any glibc since
// 2.17: the containers that it goes into are often older than the node. A name bound to the newest
// version would keep every program from starting there.
//
// Up to glibc 2.33 they live in libdl.so.2, which we do not ask for (a program without CUDA would
// pay for it): whatever loads CUDA has it, by CUDA's own runtime. Weak, so that where it is missing
// all the same, has_loader() says so and the program sees no GPU instead of dying.
#pragma once

#include <dlfcn.h>

#if defined(__x86_64__)
#define SLUICE_OLDEST "GLIBC_2.2.5"
#define SLUICE_OLDEST_INFO "GLIBC_2.3.3"
#else
#define SLUICE_OLDEST "GLIBC_2.17"
#define SLUICE_OLDEST_INFO "GLIBC_2.17"
#endif

extern "C" {
#define SLUICE_LOADER(name, version)                           \
  extern __attribute__((weak)) decltype(::name) sluice_##name; \
  __asm__(".symver sluice_" #name ", " #name "@" version)
SLUICE_LOADER(dlopen, SLUICE_OLDEST);
SLUICE_LOADER(dlsym, SLUICE_OLDEST);
SLUICE_LOADER(dlclose, SLUICE_OLDEST);
SLUICE_LOADER(dladdr1, SLUICE_OLDEST_INFO);
SLUICE_LOADER(dlinfo, SLUICE_OLDEST_INFO);
#undef SLUICE_LOADER
}

namespace sluice::hook {

inline bool has_loader() {
  return sluice_dlopen != nullptr && sluice_dlsym != nullptr && sluice_dlclose != nullptr &&
         sluice_dladdr1 != nullptr && sluice_dlinfo != nullptr;
}

}  // namespace sluice::hook
