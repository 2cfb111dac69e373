// Tensors in the form of the Open Inference Protocol: a name, a datatype, a shape, and the
// elements, little-endian and row-major without padding. A BYTES element is its length (4 bytes)
// and its bytes. Plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sluice::runtime {

enum class Datatype : uint8_t {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
  kBytes,
};

std::string_view to_string(Datatype);
std::optional<Datatype> datatype_from(std::string_view name);
size_t element_bytes(Datatype);  // 0 for BYTES: its elements differ

using Shape = std::vector<int64_t>;
std::string to_string(const Shape&);  // "[1,3,224,224]"

// Returns the product of the dimensions; kInvalid for a negative one, or for more elements than
// memory has.
Result<int64_t> element_count(const Shape&);

struct Tensor {
  std::string name;
  Datatype datatype = Datatype::kFp32;
  Shape shape;
  std::string data;

  bool operator==(const Tensor&) const = default;
};

// Checks that `data` fits datatype and shape, to the byte, and that booleans are 0 or 1.
Result<void> check_data(const Tensor&);

// Returns the elements of a BYTES tensor whose data was checked.
std::vector<std::string_view> bytes_elements(std::string_view data);
void append_bytes_element(std::string& data, std::string_view element);

}  // namespace sluice::runtime
