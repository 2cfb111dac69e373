#include "runtime/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace sluice::runtime {
namespace {

struct DatatypeInfo {
  std::string_view name;
  size_t bytes;
};
// In the order of the enumeration.
constexpr std::array<DatatypeInfo, 14> kDatatypes{{{"BOOL", 1},
                                                   {"UINT8", 1},
                                                   {"UINT16", 2},
                                                   {"UINT32", 4},
                                                   {"UINT64", 8},
                                                   {"INT8", 1},
                                                   {"INT16", 2},
                                                   {"INT32", 4},
                                                   {"INT64", 8},
                                                   {"FP16", 2},
                                                   {"BF16", 2},
                                                   {"FP32", 4},
                                                   {"FP64", 8},
                                                   {"BYTES", 0}}};

constexpr int64_t kMaxElements = int64_t{1} << 40;
constexpr size_t kLengthBytes = 4;

uint32_t length_at(std::string_view data) {
  uint32_t length;
  std::memcpy(&length, data.data(), kLengthBytes);
  return length;
}

Error wrong_data(const Tensor& t, const std::string& why) {
  return {ErrorKind::kInvalid, "tensor '" + t.name + "': " + why};
}

Result<void> check_bytes_elements(const Tensor& t, int64_t count) {
  std::string_view rest = t.data;
  for (int64_t i = 0; i < count; ++i) {
    if (rest.size() < kLengthBytes || rest.size() - kLengthBytes < length_at(rest))
      return wrong_data(
          t, "data ends within element " + std::to_string(i) + " of " + std::to_string(count));
    rest.remove_prefix(kLengthBytes + length_at(rest));
  }
  if (!rest.empty())
    return wrong_data(t, std::to_string(rest.size()) + " bytes follow the last of its " +
                             std::to_string(count) + " elements");
  return {};
}

}  // namespace

std::string_view to_string(Datatype d) {
  return kDatatypes[static_cast<size_t>(d)].name;
}

std::optional<Datatype> datatype_from(std::string_view name) {
  const auto* found = std::ranges::find(kDatatypes, name, &DatatypeInfo::name);
  if (found == kDatatypes.end()) return std::nullopt;
  return static_cast<Datatype>(found - kDatatypes.begin());
}

size_t element_bytes(Datatype d) {
  return kDatatypes[static_cast<size_t>(d)].bytes;
}

std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (const int64_t d : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(d);
  }
  return text + ']';
}

Result<int64_t> element_count(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t d : shape) {
    if (d < 0)
      return Error{ErrorKind::kInvalid, "shape " + to_string(shape) + " has a negative dimension"};
    if (d > kMaxElements || (d > 0 && count > kMaxElements / d))
      return Error{ErrorKind::kInvalid, "shape " + to_string(shape) + " has too many elements"};
    count *= d;
  }
  return count;
}

Result<void> check_data(const Tensor& t) {
  SLUICE_ASSIGN(count, element_count(t.shape));
  if (t.datatype == Datatype::kBytes) return check_bytes_elements(t, count);
  const uint64_t expected = static_cast<uint64_t>(count) * element_bytes(t.datatype);
  if (t.data.size() != expected)
    return wrong_data(t, "data has " + std::to_string(t.data.size()) + " bytes, shape " +
                             to_string(t.shape) + " of " + std::string(to_string(t.datatype)) +
                             " has " + std::to_string(expected));
  if (t.datatype == Datatype::kBool &&
      std::ranges::any_of(t.data, [](char c) { return c != 0 && c != 1; }))
    return wrong_data(t, "a BOOL is 0 or 1");
  return {};
}

std::vector<std::string_view> bytes_elements(std::string_view data) {
  std::vector<std::string_view> elements;
  while (data.size() >= kLengthBytes) {
    elements.push_back(data.substr(kLengthBytes, length_at(data)));
    data.remove_prefix(kLengthBytes + elements.back().size());
  }
  return elements;
}

void append_bytes_element(std::string& data, std::string_view element) {
  const uint32_t length = static_cast<uint32_t>(element.size());
  data.append(reinterpret_cast<const char*>(&length), kLengthBytes);
  data.append(element);
}

}  // namespace sluice::runtime
