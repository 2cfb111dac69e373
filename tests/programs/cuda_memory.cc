// An unmodified CUDA program that allocates on command, a line at a time; it answers each line with
// the driver's result and the other requested values.
//
//   plain|pitched|managed|pooled|virtual|array|flat|mipmapped|graph MIB
//                                                    allocates; answers which memory it is
//   free WHICH
//   lose WHICH                                       frees it by the driver itself, past the hook
//   capture FREED LEFT                               a graph that allocates as many MIB which it
//                                                    frees, and which it leaves; answers which
//                                                    graph
//   instantiate WHICH first|second|flags|params|upload   by a call of CUDA 10, 11, 11.4 and 12, the
//                                                    last of which may upload it at once
//   launch|upload|drop WHICH                         drop: its instance
//   trim                                             what graphs keep
//   keep                                             its pool keeps what is freed for later
//   export WHICH, import HANDLE                      by CUDA IPC; an import is a memory as well
//   info                                             free, total and the device's total, in MIB
//   fork                                             a child that lives as long as this
//   threads COUNT                                    as many allocate and free at once
//   pools COUNT                                      as many make pools of their own, and end them
//   keepers COUNT                                    pools that keep 2 MiB each of what was freed
//   pieces COUNT                                     of 16 MiB, mapped side by side, handles kept
//   release WHICH, unmap WHICH COUNT                 a piece's handle; as many pieces, by one call
//   own MIB destroy|detach                           a context of its own that has it, in pieces of
//                                                    2 MiB, and ends so
//   reset                                            destroys the context, and makes it anew
//   device NUMBER                                    allocates `plain` on that one from now on
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "abi/cuda_abi.h"

namespace {

constexpr size_t kMib = size_t{1} << 20;
constexpr size_t kRow = 4096;

struct Memory {
  CUresult result = CUDA_SUCCESS;
  std::function<CUresult()> free;
  CUdeviceptr pointer = 0;
};

Memory plain(size_t bytes) {
  CUdeviceptr p = 0;
  const CUresult result = cuMemAlloc_v2(&p, bytes);
  return {result, [p] { return cuMemFree_v2(p); }, p};
}

Memory pitched(size_t bytes) {
  CUdeviceptr p = 0;
  size_t pitch = 0;
  const CUresult result = cuMemAllocPitch_v2(&p, &pitch, kRow, bytes / kRow, 4);
  return {result, [p] { return cuMemFree_v2(p); }, p};
}

Memory managed(size_t bytes) {
  CUdeviceptr p = 0;
  const CUresult result = cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL);
  return {result, [p] { return cuMemFree_v2(p); }, p};
}

Memory pooled(size_t bytes) {
  CUdeviceptr p = 0;
  const CUresult result = cuMemAllocAsync(&p, bytes, nullptr);
  return {result, [p] { return cuMemFreeAsync(p, nullptr); }, p};
}

// The usual way: the handle is released once the memory is mapped.
Memory mapped(size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr p = 0;
  CUresult result = cuMemCreate(&handle, bytes, &properties, 0);
  if (result == CUDA_SUCCESS) result = cuMemAddressReserve(&p, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = cuMemMap(p, bytes, 0, handle, 0);
  if (result == CUDA_SUCCESS) result = cuMemRelease(handle);
  return {result, [p, bytes] { return cuMemUnmap(p, bytes); }, p};
}

// Of four bytes an element, 1024 of them a row; depth 0: flat.
CUDA_ARRAY3D_DESCRIPTOR_v2 shape_of(size_t height, size_t depth) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 shape{};
  shape.Width = kRow / 4;
  shape.Height = height;
  shape.Depth = depth;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  return shape;
}

Memory array(size_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR_v2 shape = shape_of(kMib / kRow, bytes / kMib);
  shape.Format = CU_AD_FORMAT_HALF;
  shape.NumChannels = 2;
  CUarray a = nullptr;
  const CUresult result = cuArray3DCreate_v2(&a, &shape);
  return {result, [a] { return cuArrayDestroy(a); }};
}

Memory flat(size_t bytes) {
  const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = shape_of(bytes / kRow, 0);
  const CUDA_ARRAY_DESCRIPTOR_v2 plane{shape.Width, shape.Height, shape.Format, shape.NumChannels};
  CUarray a = nullptr;
  const CUresult result = cuArrayCreate_v2(&a, &plane);
  return {result, [a] { return cuArrayDestroy(a); }};
}

// Three quarters of it the first of two levels, the second a quarter of that, the rest rounding.
Memory mipmapped(size_t bytes) {
  const CUDA_ARRAY3D_DESCRIPTOR_v2 shape = shape_of(bytes / kRow / 4 * 3, 0);
  CUmipmappedArray a = nullptr;
  const CUresult result = cuMipmappedArrayCreate(&a, &shape, 2);
  return {result, [a] { return cuMipmappedArrayDestroy(a); }};
}

// By a node of a graph, whose launch leaves it allocated.
Memory of_graph(size_t bytes) {
  CUDA_MEM_ALLOC_NODE_PARAMS wanted{};
  wanted.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  wanted.bytesize = bytes;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  CUresult result = cuGraphCreate(&graph, 0);
  if (result == CUDA_SUCCESS) result = cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &wanted);
  if (result == CUDA_SUCCESS) result = cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (result == CUDA_SUCCESS) result = cuGraphLaunch(exec, nullptr);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
  const auto free = [p = wanted.dptr] {
    const CUresult freed = cuMemFree_v2(p);
    return freed == CUDA_SUCCESS ? cuDeviceGraphMemTrim(0) : freed;
  };
  return {result, free, wanted.dptr};
}

// As frameworks make them: captured from a stream, and launched again and again.
struct Captured {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
};

CUresult capture(Captured& captured, size_t freed, size_t left) {
  CUstream stream = nullptr;
  CUdeviceptr temporary = 0, stays = 0;
  CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  const auto then = [&](auto&& call) {
    if (result == CUDA_SUCCESS) result = call();
  };
  then([&] { return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL); });
  if (left > 0) then([&] { return cuMemAllocAsync(&stays, left, stream); });
  if (freed > 0) {
    then([&] { return cuMemAllocAsync(&temporary, freed, stream); });
    then([&] { return cuMemFreeAsync(temporary, stream); });
  }
  then([&] { return cuStreamEndCapture(stream, &captured.graph); });
  cuStreamDestroy_v2(stream);
  return result;
}

CUresult instantiate(Captured& captured, const std::string& by) {
  constexpr unsigned long long kFlags = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
  CUgraphExec* exec = &captured.exec;
  if (by == "first") return cuGraphInstantiate(exec, captured.graph, nullptr, nullptr, 0);
  if (by == "second") return cuGraphInstantiate_v2(exec, captured.graph, nullptr, nullptr, 0);
  if (by == "flags") return cuGraphInstantiateWithFlags(exec, captured.graph, kFlags);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters{};
  parameters.flags = by == "upload" ? kFlags | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : kFlags;
  return cuGraphInstantiateWithParams(exec, captured.graph, &parameters);
}

Memory imported(const std::string& text) {
  CUipcMemHandle handle{};
  for (size_t i = 0; i < sizeof handle.reserved; ++i)
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  CUdeviceptr p = 0;
  const CUresult result = cuIpcOpenMemHandle_v2(&p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  return {result, [p] { return cuIpcCloseMemHandle(p); }, p};
}

void answer(CUresult result, const std::string& more) {
  std::cout << static_cast<int>(result) << ' ' << more << std::endl;
}

void say_exported(CUdeviceptr pointer) {
  CUipcMemHandle handle{};
  const CUresult result = cuIpcGetMemHandle(&handle, pointer);
  std::string text;
  for (const char byte : handle.reserved) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned char>(byte));
    text += two;
  }
  answer(result, text);
}

void say_info() {
  size_t available = 0, total = 0, device = 0;
  CUresult result = cuMemGetInfo_v2(&available, &total);
  if (result == CUDA_SUCCESS) result = cuDeviceTotalMem_v2(&device, 0);
  std::ostringstream text;
  text << available / kMib << ' ' << total / kMib << ' ' << device / kMib;
  answer(result, text.str());
}

// Allocates and frees, a few at a time, for so many rounds; expects CUDA_ERROR_OUT_OF_MEMORY.
// Returns the first other result, else success.
CUresult churn(CUcontext context, const std::vector<Memory (*)(size_t)>& kinds, size_t seed) {
  constexpr size_t kRounds = 200, kAtOnce = 4;
  std::vector<Memory> mine;
  CUresult worst = cuCtxSetCurrent(context);
  const auto note = [&](CUresult result) {
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) worst = result;
    return result == CUDA_SUCCESS;
  };
  for (size_t i = seed; i < seed + kRounds; ++i) {
    Memory memory = kinds[i % kinds.size()]((2 + i % 7 * 2) * kMib);
    if (note(memory.result)) mine.push_back(std::move(memory));
    if (mine.size() < kAtOnce) continue;
    note(mine.front().free());
    mine.erase(mine.begin());
  }
  for (const Memory& memory : mine) note(memory.free());
  return worst;
}

CUresult in_threads(int count, const std::function<CUresult(CUcontext, size_t)>& life) {
  CUcontext context = nullptr;
  cuCtxGetCurrent(&context);
  std::vector<std::future<CUresult>> threads;
  for (int i = 0; i < count; ++i)
    threads.push_back(std::async(std::launch::async, life, context, static_cast<size_t>(i)));
  CUresult worst = CUDA_SUCCESS;
  for (auto& thread : threads)
    if (const CUresult result = thread.get(); result != CUDA_SUCCESS) worst = result;
  return worst;
}

// Makes a pool, allocates from it, and destroys it with what it keeps. The other kinds meanwhile
// make other threads read it.
CUresult churn_pools(CUcontext context, size_t seed) {
  constexpr size_t kRounds = 100;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUresult worst = cuCtxSetCurrent(context);
  const auto note = [&](CUresult result) {
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY) worst = result;
    return result == CUDA_SUCCESS;
  };
  for (size_t i = seed; i < seed + kRounds; ++i) {
    CUmemoryPool pool = nullptr;
    if (!note(cuMemPoolCreate(&pool, &properties))) return worst;
    CUdeviceptr p = 0;
    if (note(cuMemAllocFromPoolAsync(&p, (2 + i % 5 * 2) * kMib, pool, nullptr)))
      note(cuMemFreeAsync(p, nullptr));
    Memory other = plain((2 + i % 3 * 2) * kMib);
    if (note(other.result)) note(other.free());
    note(cuMemPoolDestroy(pool));
  }
  return worst;
}

// Pools of its own, each with what was freed of it.
CUresult make_keepers(int count) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  uint64_t all = ~uint64_t{0};
  CUresult result = CUDA_SUCCESS;
  const auto then = [&](auto call) { result = result == CUDA_SUCCESS ? call() : result; };
  for (int i = 0; i < count; ++i) {
    CUmemoryPool pool = nullptr;
    CUdeviceptr p = 0;
    then([&] { return cuMemPoolCreate(&pool, &properties); });
    then([&] { return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all); });
    then([&] { return cuMemAllocFromPoolAsync(&p, 2 * kMib, pool, nullptr); });
    then([&] { return cuMemFreeAsync(p, nullptr); });
    then([] { return cuStreamSynchronize(nullptr); });
  }
  return result;
}

// Memory by handles of its own, mapped side by side.
struct Pieces {
  static constexpr size_t kBytes = 16 * kMib;

  CUresult make(size_t count) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    handles.resize(count);
    CUresult result = cuMemAddressReserve(&begin, count * kBytes, 0, 0, 0);
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
      result = cuMemCreate(&handles[i], kBytes, &properties, 0);
      if (result == CUDA_SUCCESS) result = cuMemMap(begin + i * kBytes, kBytes, 0, handles[i], 0);
    }
    return result;
  }
  CUresult unmap(size_t first, size_t count) const {
    return cuMemUnmap(begin + first * kBytes, count * kBytes);
  }

  CUdeviceptr begin = 0;
  std::vector<CUmemGenericAllocationHandle> handles;
};

CUresult keep_what_is_freed() {
  CUmemoryPool pool = nullptr;
  uint64_t all = ~uint64_t{0};
  const CUresult result = cuDeviceGetDefaultMemPool(&pool, 0);
  return result == CUDA_SUCCESS
             ? cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all)
             : result;
}

// A context of its own with some memory, ended in one of two ways while it has it.
CUresult live_in_own_context(size_t bytes, const std::string& end) {
  constexpr size_t kPiece = 2 * kMib;
  CUcontext before = nullptr, own = nullptr;
  cuCtxGetCurrent(&before);
  CUresult result = cuCtxCreate_v2(&own, 0, 0);
  const auto then = [&](auto&& call) {
    if (result == CUDA_SUCCESS) result = call();
  };
  if (end == "detach") {
    then([&] { return cuCtxAttach(&own, 0); });
    then([&] { return cuCtxDetach(own); });
  }
  for (size_t piece = 0; piece < bytes / kPiece; ++piece)
    then([&] { return plain(kPiece).result; });
  then([&] { return end == "detach" ? cuCtxDetach(own) : cuCtxDestroy_v2(own); });
  then([&] { return cuCtxSetCurrent(before); });
  return result;
}

// The hook stands in the driver's place under its name, but not under its path.
CUresult free_past_the_hook(CUdeviceptr pointer) {
  const char* folder = std::getenv("LD_LIBRARY_PATH");
  void* driver = dlopen((std::string(folder) + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return CUDA_ERROR_NOT_FOUND;
  return reinterpret_cast<decltype(&cuMemFree_v2)>(dlsym(driver, "cuMemFree_v2"))(pointer);
}

CUresult make_context(int device = 0) {
  CUcontext context = nullptr;
  const CUresult result = cuDevicePrimaryCtxRetain(&context, device);
  return result == CUDA_SUCCESS ? cuCtxSetCurrent(context) : result;
}

}  // namespace

int main() {
  const std::map<std::string, Memory (*)(size_t)> kinds = {
      {"plain", plain},   {"pitched", pitched},     {"managed", managed},
      {"pooled", pooled}, {"virtual", mapped},      {"array", array},
      {"flat", flat},     {"mipmapped", mipmapped}, {"graph", of_graph}};
  std::vector<Memory> memories;
  std::vector<Captured> graphs;
  Pieces pieces;
  CUresult ready = cuInit(0);
  if (ready == CUDA_SUCCESS) ready = make_context();
  answer(ready, "");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what, which, how;
    words >> what >> which >> how;
    if (const auto kind = kinds.find(what); kind != kinds.end() || what == "import") {
      memories.push_back(what == "import" ? imported(which)
                                          : kind->second(std::stoul(which) * kMib));
      answer(memories.back().result, std::to_string(memories.size() - 1));
    } else if (what == "free") {
      answer(memories.at(std::stoul(which)).free(), "");
    } else if (what == "lose") {
      answer(free_past_the_hook(memories.at(std::stoul(which)).pointer), "");
    } else if (what == "capture") {
      const CUresult result =
          capture(graphs.emplace_back(), std::stoul(which) * kMib, std::stoul(how) * kMib);
      answer(result, std::to_string(graphs.size() - 1));
    } else if (what == "instantiate") {
      answer(instantiate(graphs.at(std::stoul(which)), how), "");
    } else if (what == "launch") {
      answer(cuGraphLaunch(graphs.at(std::stoul(which)).exec, nullptr), "");
    } else if (what == "upload") {
      answer(cuGraphUpload(graphs.at(std::stoul(which)).exec, nullptr), "");
    } else if (what == "drop") {
      answer(cuGraphExecDestroy(graphs.at(std::stoul(which)).exec), "");
    } else if (what == "trim") {
      answer(cuDeviceGraphMemTrim(0), "");
    } else if (what == "keep") {
      answer(keep_what_is_freed(), "");
    } else if (what == "export") {
      say_exported(memories.at(std::stoul(which)).pointer);
    } else if (what == "info") {
      say_info();
    } else if (what == "fork") {
      const pid_t child = fork();
      if (child == 0) {
        for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
        alarm(60);  // in case no test ends it
        pause();
        _exit(0);
      }
      answer(CUDA_SUCCESS, std::to_string(child));
    } else if (what == "threads") {
      std::vector<Memory (*)(size_t)> all;
      for (const auto& [name, kind] : kinds) all.push_back(kind);
      answer(in_threads(std::stoi(which),
                        [&](CUcontext context, size_t seed) { return churn(context, all, seed); }),
             "");
    } else if (what == "pools") {
      answer(in_threads(std::stoi(which), churn_pools), "");
    } else if (what == "keepers") {
      answer(make_keepers(std::stoi(which)), "");
    } else if (what == "pieces") {
      answer(pieces.make(std::stoul(which)), "");
    } else if (what == "release") {
      answer(cuMemRelease(pieces.handles.at(std::stoul(which))), "");
    } else if (what == "unmap") {
      answer(pieces.unmap(std::stoul(which), std::stoul(how)), "");
    } else if (what == "device") {
      answer(make_context(std::stoi(which)), "");
    } else if (what == "own") {
      answer(live_in_own_context(std::stoul(which) * kMib, how), "");
    } else if (what == "reset") {
      cuDevicePrimaryCtxReset_v2(0);
      answer(make_context(), "");
    }
  }
}
