// Shapes of ONNX operators' results. For onnx_graph.cc alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::trace {

struct OnnxNode {
  std::string type;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::vector<int64_t>>
      attributes;  // integers; a single one is a list of one
  bool has_graph = false;

  int64_t attribute(const std::string& name, int64_t otherwise) const {
    const auto found = attributes.find(name);
    return found == attributes.end() || found->second.empty() ? otherwise : found->second[0];
  }
  std::vector<int64_t> list(const std::string& name) const {
    const auto found = attributes.find(name);
    return found == attributes.end() ? std::vector<int64_t>() : found->second;
  }
  std::string input(size_t i) const { return i < inputs.size() ? inputs[i] : ""; }
};

struct OnnxShapes {
  std::map<std::string, std::vector<int64_t>> shapes;     // of values that are known so far
  std::map<std::string, std::vector<int64_t>> constants;  // integers, such as a shape to take

  std::optional<std::vector<int64_t>> of(const std::string& name) const {
    const auto found = shapes.find(name);
    if (found == shapes.end()) return std::nullopt;
    return found->second;
  }
};

// Whether a dimension may be so large: 2⁴⁰ at most, so that sums of a few stay numbers.
inline bool is_dimension(int64_t d) {
  return d >= 0 && d <= int64_t{1} << 40;
}

// Both stop at the largest number.
int64_t product(const std::vector<int64_t>& shape, size_t from = 0, size_t to = SIZE_MAX);
int64_t times(int64_t a, int64_t b);

// Returns whether operators of the type only move numbers or change each by itself.
bool moves_or_maps(std::string_view type);

// Returns the shape of a node's first result from those of its inputs, or nothing.
std::optional<std::vector<int64_t>> onnx_shape(const OnnxNode& node, const OnnxShapes& known);

}  // namespace sluice::trace
