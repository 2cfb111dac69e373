#include "runtime/executor_torch.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>

namespace sluice::runtime {
namespace {

using torch::jit::Node;
using torch::jit::Stack;
using torch::jit::Value;

// A weight in oneDNN's own layout: an operator without inputs, run once.
const c10::Symbol kMkldnnConstant = c10::Symbol::fromQualString("prim::ConstantMKLDNNTensor");

c10::IValue constant_value(const Node* node) {
  if (node->kind() == c10::prim::Constant) {
    const auto value = torch::jit::toIValue(node->output());
    return value ? *value : c10::IValue();
  }
  Stack stack;
  node->getOperation()(stack);
  return stack.at(0);
}

}  // namespace

std::optional<GraphExecutor> GraphExecutor::compile(std::shared_ptr<torch::jit::Graph> graph) {
  GraphExecutor e;
  e.graph_ = std::move(graph);
  for (const Value* input : e.graph_->inputs()) e.inputs_.push_back(e.slot_of(input));
  for (Node* node : e.graph_->nodes())
    if (!e.add(node)) return std::nullopt;
  for (const Value* output : e.graph_->outputs()) e.outputs_.push_back({e.slot_of(output), false});
  e.mark_last_uses();
  return e;
}

std::optional<GraphExecutor::Kind> GraphExecutor::kind_of(const Node& node) {
  switch (node.kind()) {
    case c10::prim::ListConstruct:
      return Kind::kMakeList;
    case c10::prim::ListUnpack:
      return Kind::kUnpackList;
    case c10::prim::TupleUnpack:
      return Kind::kUnpackTuple;
    case c10::prim::TupleConstruct:
      // A named tuple has a type of its own.
      if (node.output()->type()->expectRef<c10::TupleType>().schema()) return std::nullopt;
      return Kind::kMakeTuple;
    default:
      break;
  }
  const torch::jit::Operator* found = node.maybeOperator();
  if (found == nullptr || !node.blocks().empty() || found->schema().is_vararg())
    return std::nullopt;
  return Kind::kOperator;
}

uint32_t GraphExecutor::slot_of(const Value* value) {
  const auto [found, added] = numbers_.emplace(value, static_cast<uint32_t>(initial_.size()));
  if (added) {
    initial_.emplace_back();
    constant_.push_back(false);
  }
  return found->second;
}

bool GraphExecutor::add(Node* node) {
  if (node->kind() == c10::prim::Constant || node->kind() == kMkldnnConstant) {
    const uint32_t slot = slot_of(node->output());
    initial_[slot] = constant_value(node);
    constant_[slot] = true;
    return true;
  }
  const std::optional<Kind> kind = kind_of(*node);
  if (!kind) return false;
  Step step{.kind = *kind, .node = node};
  if (*kind == Kind::kOperator) {
    step.operation = node->getOperation();
    ++operators_;
  } else if (*kind == Kind::kMakeList) {
    step.element = node->output()->type()->expectRef<c10::ListType>().getElementType();
  }
  for (const Value* input : node->inputs()) step.inputs.push_back({slot_of(input), false});
  for (const Value* output : node->outputs()) step.outputs.push_back(slot_of(output));
  steps_.push_back(std::move(step));
  return true;
}

// Backwards: the first use that is met is the last one.
void GraphExecutor::mark_last_uses() {
  std::vector<bool> used = constant_;
  const auto mark = [&](std::vector<Use>& uses) {
    for (auto use = uses.rbegin(); use != uses.rend(); ++use) {
      use->last = !used[use->slot];
      used[use->slot] = true;
    }
  };
  mark(outputs_);
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) mark(step->inputs);
}

std::vector<c10::IValue> GraphExecutor::run(std::vector<c10::IValue> inputs, Gate* gate,
                                            const Watch& watch) {
  std::vector<c10::IValue> slots = initial_;
  for (size_t i = 0; i < inputs_.size(); ++i) slots[inputs_[i]] = std::move(inputs.at(i));
  Stack stack;
  for (Step& step : steps_) {
    if (gate != nullptr && step.kind == Kind::kOperator) gate->pass();
    execute(step, slots, stack, watch);
  }
  std::vector<c10::IValue> outputs;
  for (const Use& use : outputs_)
    outputs.push_back(use.last ? std::move(slots[use.slot]) : slots[use.slot]);
  return outputs;
}

void GraphExecutor::execute(Step& step, std::vector<c10::IValue>& slots, Stack& stack,
                            const Watch& watch) {
  stack.clear();
  for (const Use& use : step.inputs) {
    if (use.last)
      stack.push_back(std::move(slots[use.slot]));
    else
      stack.push_back(slots[use.slot]);
  }
  const Stack inputs = watch ? stack : Stack();
  switch (step.kind) {
    case Kind::kOperator:
      step.operation(stack);
      break;
    case Kind::kMakeList: {
      c10::impl::GenericList list(step.element);
      for (c10::IValue& v : stack) list.push_back(std::move(v));
      stack = {std::move(list)};
      break;
    }
    case Kind::kMakeTuple:
      stack = {c10::ivalue::Tuple::create(std::move(stack))};
      break;
    case Kind::kUnpackList: {
      const c10::IValue list = std::move(stack[0]);
      stack.assign(list.toListRef().begin(), list.toListRef().end());
      break;
    }
    case Kind::kUnpackTuple: {
      const c10::IValue tuple = std::move(stack[0]);
      const auto& elements = tuple.toTupleRef().elements();
      stack.assign(elements.begin(), elements.end());
      break;
    }
  }
  TORCH_CHECK(stack.size() == step.outputs.size(), "an operator returned ", stack.size(),
              " values, its node has ", step.outputs.size());
  if (watch) watch(*step.node, inputs, stack);
  for (size_t i = 0; i < step.outputs.size(); ++i) slots[step.outputs[i]] = std::move(stack[i]);
}

}  // namespace sluice::runtime
