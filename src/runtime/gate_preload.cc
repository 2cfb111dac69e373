// libsluice_gate.so: the gate for an unmodified PyTorch program, preloaded by LD_PRELOAD. When
// libtorch is loaded, the library makes it call the gate before every operator.
//
// Runs inside other people's programs: links only libc (libtorch would drag 288 libraries into
// every shell), never throws and never exits. SLUICE_PERMIT_SOCKET names the permit socket; the
// daemon learns the process's identity and quota from the kernel. Where the gate cannot work it
// says so, in one line; then only the cgroup's quota is left, if there is one.
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/loaded_symbol.h"
#include "wire/iteration_marks.h"
#include "wire/permit.h"

namespace {

sluice_gate gate = {};
__thread sluice_thread* mine;
unsigned decided;  // set once the process has pages, or was refused them

void say(const char* what, const char* detail) {
  fprintf(stderr, "sluice-gate: %s%s; permits do not hold this program\n", what, detail);
}

// ---- libtorch's interface in version 1.13 (ATen/record_function.h) ----------------------------

// std::unique_ptr<ObserverContext>: an address, but not trivial, hence returned in memory.
struct NoContext {
  void* nothing = nullptr;
  ~NoContext() {}
};

// at::RecordFunctionCallback, passed by value.
struct Callback {
  NoContext (*start)(const void* record_function);
  void (*end)(const void* record_function, void* context);
  double sampling_probability = 1.0;
  bool scopes[10] = {true};  // FUNCTION alone: operators and autograd's nodes
  bool needs_inputs = false, needs_outputs = false, needs_ids = false;
};
using AddGlobalCallback = uint64_t (*)(Callback);

struct TorchVersion {
  const char* soname;
  const char* add_global_callback;
};
constexpr TorchVersion kKnown[] = {
    {"libtorch_cpu.so.1.13", "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE"},
};

// Reports once that the process has no pages. A busy daemon may answer after the first operator has
// stopped waiting, so nothing is decided while an answer is outstanding.
void check_pages() {
  sluice_process* process = __atomic_load_n(&gate.process, __ATOMIC_ACQUIRE);
  if (process != nullptr) {
    if (!sluice_try_lock(&process->lock)) return;
    const bool asking = process->talking != 0;
    sluice_unlock(&process->lock);
    if (asking) return;
  }
  if (__atomic_exchange_n(&decided, 1u, __ATOMIC_RELAXED) == 0 &&
      sluice_gate_state(&gate) == SLUICE_GATE_OPEN)
    say("no pages from ", gate.socket_path);
}

// Returns whether the permit socket is known. A template's fork has its variables only after
// libtorch was loaded (python/sluice_template.py), so the environment is asked until it has it.
bool has_socket() {
  static unsigned said;
  if (__atomic_load_n(&gate.socket_path, __ATOMIC_ACQUIRE) != nullptr) return true;
  const char* path = getenv("SLUICE_PERMIT_SOCKET");  // NOLINT(concurrency-mt-unsafe)
  if (path == nullptr) {
    if (__atomic_exchange_n(&said, 1u, __ATOMIC_RELAXED) == 0)
      say("SLUICE_PERMIT_SOCKET", " is not set");
    return false;
  }
  __atomic_store_n(&gate.socket_path, path, __ATOMIC_RELEASE);
  return true;
}

NoContext before_operator(const void*) {
  if (!has_socket()) return {};
  sluice_gate_pass(&gate, &mine);
  if (__atomic_load_n(&decided, __ATOMIC_RELAXED) == 0) check_pages();
  return {};
}

// ---- finding libtorch -------------------------------------------------------------------------

const char* file_of(const dl_phdr_info& library) {
  const char* slash = strrchr(library.dlpi_name, '/');
  return slash != nullptr ? slash + 1 : library.dlpi_name;
}

// "libtorch_cpu.so.1.13", or with a patch level: the interface is the minor version's.
bool is(const char* file, const char* soname) {
  const size_t length = strlen(soname);
  return strncmp(file, soname, length) == 0 && (file[length] == 0 || file[length] == '.');
}

// Its initialisers may not have run yet; registering a callback needs none of them.
bool install(const dl_phdr_info& torch) {
  for (const TorchVersion& known : kKnown) {
    if (!is(file_of(torch), known.soname)) continue;
    void* add = sluice::runtime::LoadedLibrary(torch).function(known.add_global_callback);
    if (add == nullptr) continue;
    reinterpret_cast<AddGlobalCallback>(add)({before_operator, nullptr});
    return true;
  }
  return false;
}

int on_library(dl_phdr_info* library, size_t, void*) {
  static unsigned done;
  if (!is(file_of(*library), "libtorch_cpu.so")) return 0;
  if (__atomic_exchange_n(&done, 1u, __ATOMIC_ACQ_REL)) return 1;
  if (!install(*library)) say("this version of PyTorch is not known: ", library->dlpi_name);
  return 1;
}

void look_for_torch() {
  const int saved_errno = errno;
  dl_iterate_phdr(on_library, nullptr);
  errno = saved_errno;
}

using Dlopen = void* (*)(const char*, int);
Dlopen next_dlopen() {
  static Dlopen next;
  if (next == nullptr) next = reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen"));
  return next;
}

// Programs that link libtorch have it by now.
__attribute__((constructor)) void at_start() {
  look_for_torch();
}

unsigned iteration_is_open;
__thread uint64_t iteration_begun_ns;  // of the thread whose iteration it is; else 0

}  // namespace

extern "C" __attribute__((visibility("default"))) void sluice_iteration_begin() {
  if (__atomic_exchange_n(&iteration_is_open, 1u, __ATOMIC_ACQUIRE) == 0)
    iteration_begun_ns = sluice_clock(CLOCK_MONOTONIC);
}
extern "C" __attribute__((visibility("default"))) void sluice_iteration_end(uint32_t kind) {
  if (iteration_begun_ns == 0) return;
  sluice_hint_iteration(&gate, sluice_clock(CLOCK_MONOTONIC) - iteration_begun_ns, kind);
  iteration_begun_ns = 0;
  __atomic_store_n(&iteration_is_open, 0u, __ATOMIC_RELEASE);
}

// Python loads libtorch behind an extension module, by path. For a bare name libc uses the caller's
// RUNPATH and $ORIGIN, so such a call must reach it as its caller made it: we jump to it, and check
// for libtorch at the next call.
extern "C" __attribute__((visibility("default"))) void* dlopen(const char* file, int mode) {
  const Dlopen next = next_dlopen();
  if (file == nullptr || strchr(file, '/') == nullptr || strchr(file, '$') != nullptr) {
    look_for_torch();
    return next(file, mode);
  }
  void* handle = next(file, mode);
  look_for_torch();
  return handle;
}
