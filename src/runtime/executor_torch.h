// Runs a TorchScript graph node by node, as a device runs a stream of kernels, with the gate in the
// loop. The graph was frozen and inlined: it has no attributes, calls or control flow. Values live
// in numbered slots. A slot is emptied by its last use, so the executor needs no more memory than
// the interpreter. Constants (the weights) are only read.
//
// Not thread-safe. Included by the torch engine alone.
#pragma once

#include <torch/script.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/gate.h"

namespace sluice::runtime {

class GraphExecutor {
 public:
  // Returns nothing for a graph with a node that needs the interpreter (an `if`, a loop, a call).
  static std::optional<GraphExecutor> compile(std::shared_ptr<torch::jit::Graph> graph);

  // Is told of each node that ran, with its inputs and outputs.
  using Watch = std::function<void(const torch::jit::Node&, const std::vector<c10::IValue>& inputs,
                                   const std::vector<c10::IValue>& outputs)>;

  // Returns the graph's outputs. Throws what operators throw.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, Gate* gate,
                               const Watch& watch = nullptr);

  size_t operators() const { return operators_; }

 private:
  struct Use {
    uint32_t slot;
    bool last;
  };
  enum class Kind : uint8_t { kOperator, kMakeList, kMakeTuple, kUnpackList, kUnpackTuple };
  struct Step {
    Kind kind;
    const torch::jit::Node* node;
    torch::jit::Operation operation{nullptr};  // of kOperator
    c10::TypePtr element;                      // of kMakeList
    std::vector<Use> inputs;
    std::vector<uint32_t> outputs;
  };

  GraphExecutor() = default;
  static std::optional<Kind> kind_of(const torch::jit::Node& node);
  uint32_t slot_of(const torch::jit::Value* value);
  bool add(torch::jit::Node* node);
  void mark_last_uses();
  void execute(Step& step, std::vector<c10::IValue>& slots, torch::jit::Stack& stack,
               const Watch& watch);

  std::shared_ptr<torch::jit::Graph> graph_;  // owns what the steps refer to
  std::unordered_map<const torch::jit::Value*, uint32_t> numbers_;
  std::vector<c10::IValue> initial_;  // every slot before a run: constants, else empty
  std::vector<bool> constant_;
  std::vector<Step> steps_;
  std::vector<uint32_t> inputs_;
  std::vector<Use> outputs_;
  size_t operators_ = 0;
};

}  // namespace sluice::runtime
