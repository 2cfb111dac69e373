// What the emulated driver's handles stand for. Plain objects, guarded by the process's one lock
// (driver.h). A handle is its object's address. It is looked up in a table, so that a handle that
// was released, or never existed, is refused.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "device_model/device_model.h"
#pragma GCC visibility push(default)
#include "abi/cuda_abi.h"
#pragma GCC visibility pop

namespace sluice::emulator {

template <typename T>
class Table {
 public:
  T* add(std::unique_ptr<T> object) {
    T* address = object.get();
    objects_.emplace(address, std::move(object));
    return address;
  }
  template <typename Handle>
  T* find(Handle handle) const {
    const auto found = objects_.find(reinterpret_cast<T*>(handle));
    return found == objects_.end() ? nullptr : found->second.get();
  }
  void remove(T* object) { objects_.erase(object); }
  template <typename F>
  void remove_if(F&& is_so) {
    std::erase_if(objects_, [&](const auto& entry) { return is_so(*entry.second); });
  }
  template <typename F>
  void for_each(F&& visit) {
    for (auto& [address, object] : objects_) visit(*object);
  }

 private:
  std::unordered_map<T*, std::unique_ptr<T>> objects_;
};

struct Context {
  CUdevice device = 0;
  std::uint32_t group = 0;  // of its streams, in the device's model
  unsigned flags = 0;
  bool is_primary = false;
  unsigned uses = 1;                        // of one's own: attached so often
  std::uint32_t cost = DeviceModel::kNone;  // the allocation that it takes for itself
  CUresult error = CUDA_SUCCESS;            // sticky: from then on every call fails with it
  struct Fault {
    Ticket at;
    CUresult error;
  };
  std::vector<Fault> faults;  // kernels that will end in an error
};

struct Module;
struct Function {
  Module* module = nullptr;
  std::string name;
  Kernel kernel;
  CUresult fault = CUDA_SUCCESS;
};
struct Module {
  Context* context = nullptr;
};

struct Node {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::vector<Node*> after;
  Function* function = nullptr;  // of a kernel
  CUDA_KERNEL_NODE_PARAMS_v2 launch{};
  Engine engine = Engine::kWithin;  // of a copy
  std::uint64_t bytes = 0;
  CUdeviceptr pointer = 0;  // of a memory node
  CUhostFn host = nullptr;  // of a function of the program's
  void* user = nullptr;
};
struct Graph {
  std::deque<Node> nodes;  // each after those that it depends on
};
struct GraphExec {
  Context* context = nullptr;
  const Graph* made_from = nullptr;  // null: destroyed
  Graph graph;
  bool frees_on_launch = false;  // what its last launch left
};

// What streams record instead of doing it, from the begin of a capture to its end.
struct Capture {
  std::uint64_t id = 0;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  int thread = 0;
  bool invalid = false;
};

struct Stream {
  Context* context = nullptr;
  std::uint32_t model = 0;
  unsigned flags = 0;
  int priority = 0;
  StreamKind kind = StreamKind::kBlocking;
  std::shared_ptr<Capture> capture;
  bool began_capture = false;   // the others joined it
  std::vector<Node*> frontier;  // what the next captured node comes after
};

struct Event {
  Context* context = nullptr;
  std::uint32_t model = 0;
  unsigned flags = 0;
  std::shared_ptr<Capture> capture;  // its last record was captured
  bool capture_ended = false;        // its last record was captured, by a capture that has ended
  std::vector<Node*> frontier;
};

// Addresses behind which there is, or may be, memory.
enum class RangeKind { kDevice, kManaged, kHost, kPooled, kImported, kMapped, kArray, kGraph };
struct Pool;
struct Range {
  RangeKind kind = RangeKind::kDevice;
  std::uint64_t bytes = 0;   // as asked for
  std::uint64_t mapped = 0;  // as mapped
  std::uint32_t allocation = DeviceModel::kNone;
  Context* context = nullptr;
  Pool* pool = nullptr;
  bool accessible = true;
  bool writable = true;
};
using Ranges = std::map<std::uint64_t, Range>;  // by address

// Memory of a graph's node. Its address stays; its allocation is made at the first launch and stays
// until it is trimmed.
struct GraphBlock {
  CUdevice device = 0;
  const Graph* graph = nullptr;  // its node allocates this; null: destroyed
  std::uint64_t bytes = 0, mapped = 0;
  std::uint32_t allocation = DeviceModel::kNone;  // kNone: nothing lies behind it
  bool in_use = false;
  bool freed_within = false;  // by a node of that graph
};
struct GraphMemory {
  std::map<std::uint64_t, GraphBlock> blocks;  // by address
  std::map<CUdevice, std::uint64_t> reserved;
};

// Stream-ordered memory: whole allocations, kept up to a threshold for the next request.
struct Pool {
  CUdevice device = 0;
  std::uint64_t threshold = 0, used = 0, used_high = 0, reserved = 0, reserved_high = 0;
  std::multimap<std::uint64_t, std::uint64_t> kept;  // bytes → address of a block
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>>
      blocks;                   // address → bytes, allocation
  int reuse[4] = {1, 1, 1, 1};  // by attribute; kept, not followed
};

}  // namespace sluice::emulator
