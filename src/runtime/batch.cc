#include "runtime/batch.h"

#include <algorithm>
#include <numeric>

namespace sluice::runtime {
namespace {

constexpr size_t kBytesOfElement = 32;  // of a request
constexpr size_t kBytesBesides = 1 << 20;

// Returns the bytes of the next `rows` rows, of a tensor with `all` rows.
size_t bytes_of_rows(const Tensor& t, std::string_view rest, int64_t rows, int64_t all) {
  if (t.datatype != Datatype::kBytes) return t.data.size() / static_cast<size_t>(all) * rows;
  const int64_t elements = *element_count(t.shape) / all * rows;
  const std::vector<std::string_view> each = bytes_elements(rest);
  if (elements == 0) return 0;
  const std::string_view last = each[static_cast<size_t>(elements) - 1];
  return static_cast<size_t>(last.data() + last.size() - rest.data());
}

}  // namespace

bool batchable(const ModelSpec& spec) {
  const auto variable = [](const TensorSpec& t) { return !t.shape.empty() && t.shape[0] == -1; };
  return std::ranges::all_of(spec.inputs, variable) && std::ranges::all_of(spec.outputs, variable);
}

Result<int> inferences_of(const InferRequest& request, const ModelSpec& model, int max_batch) {
  if (!batchable(model)) return 1;
  const int64_t rows = request.inputs[0].shape[0];
  for (const Tensor& t : request.inputs)
    if (t.shape[0] != rows)
      return Error{ErrorKind::kInvalid,
                   "input '" + t.name + "' has a batch of " + std::to_string(t.shape[0]) +
                       ", input '" + request.inputs[0].name + "' one of " + std::to_string(rows)};
  if (rows < 1 || rows > max_batch)
    return Error{ErrorKind::kInvalid, "inputs: a batch of " + std::to_string(rows) +
                                          "; the function's maxBatchSize allows 1 to " +
                                          std::to_string(max_batch)};
  return static_cast<int>(rows);
}

std::optional<size_t> request_bytes(const ModelSpec& model, int max_batch) {
  const bool batches = batchable(model);
  size_t bytes = kBytesBesides;
  for (const TensorSpec& spec : model.inputs) {
    if (spec.datatype == to_string(Datatype::kBytes)) return std::nullopt;
    Shape shape = spec.shape;
    if (batches) shape[0] = max_batch;
    const auto elements = element_count(shape);
    if (!elements.ok()) return std::nullopt;
    bytes += kBytesOfElement * static_cast<size_t>(*elements);
  }
  return bytes;
}

std::string batch_key(std::span<const Tensor> inputs) {
  std::string key;
  for (const Tensor& t : inputs) {
    key += to_string(t.datatype);
    key += t.shape.empty() ? "[]" : to_string(Shape(t.shape.begin() + 1, t.shape.end()));
  }
  return key;
}

std::vector<Tensor> join(std::span<const std::vector<Tensor>* const> parts) {
  std::vector<Tensor> joined = *parts.front();
  for (size_t i = 0; i < joined.size(); ++i) {
    size_t bytes = 0;
    for (const auto* part : parts) bytes += (*part)[i].data.size();
    joined[i].data.reserve(bytes);
    for (const auto* part : parts.subspan(1)) {
      joined[i].shape[0] += (*part)[i].shape[0];
      joined[i].data += (*part)[i].data;
    }
  }
  return joined;
}

Result<std::vector<std::vector<Tensor>>> split(std::vector<Tensor> tensors,
                                               std::span<const int> rows) {
  const int64_t all = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  std::vector<std::vector<Tensor>> parts(rows.size());
  for (Tensor& t : tensors) {
    if (t.shape.empty() || t.shape[0] != all)
      return Error{ErrorKind::kInternal, "'" + t.name + "' has shape " + to_string(t.shape) +
                                             " for a batch of " + std::to_string(all)};
    std::string_view rest = t.data;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t bytes = bytes_of_rows(t, rest, rows[i], all);
      Tensor part{t.name, t.datatype, t.shape, std::string(rest.substr(0, bytes))};
      part.shape[0] = rows[i];
      rest.remove_prefix(bytes);
      parts[i].push_back(std::move(part));
    }
  }
  return parts;
}

std::vector<int> rows_of_parts(int rows, int batch) {
  std::vector<int> parts(static_cast<size_t>(rows / batch), batch);
  if (rows % batch > 0) parts.push_back(rows % batch);
  return parts;
}

Result<std::vector<Tensor>> join_outputs(std::span<const std::vector<Tensor>> parts,
                                         std::span<const int> rows) {
  std::vector<const std::vector<Tensor>*> pointers;
  for (size_t p = 0; p < parts.size(); ++p) {
    pointers.push_back(&parts[p]);
    for (size_t i = 0; i < parts[p].size(); ++i) {
      Shape expected = parts[0][i].shape;
      if (!expected.empty()) expected[0] = rows[p];
      if (expected.empty() || parts[p][i].shape != expected)
        return Error{ErrorKind::kInternal,
                     "output '" + parts[p][i].name + "' has shape " + to_string(parts[p][i].shape) +
                         " for one part of the batch and " + to_string(parts[0][i].shape) +
                         " for another: ask for at most " + std::to_string(rows[0]) + " at once"};
    }
  }
  return join(pointers);
}

}  // namespace sluice::runtime
