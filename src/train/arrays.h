// A data set: a folder of arrays NAME.npy (NumPy's format), mapped into memory. The first dimension
// of each counts the samples. The arrays are the arguments of the model's `loss`, in the order of
// their names, unless the folder's index.json gives another: {"arrays": ["images.npy",
// "labels.npy"]}.
//
// Read-only after open(); any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sluice::train {

// An array's header, of NumPy's format 1.0 to 3.0.
struct ArrayHeader {
  std::string type;            // "<f4", "<i8", "|u1", …: NumPy's, little-endian
  std::vector<int64_t> shape;  // of one dimension at least
  size_t data = 0;             // where it begins in the file
};
// Parses the first bytes of a file. Returns kInvalid with what is wrong: no such format, a layout
// of columns, a type that is no number.
Result<ArrayHeader> array_header_from(std::string_view bytes);
// Returns the bytes of one number of that type; 0: it is not known.
size_t bytes_of(std::string_view type);

class Arrays {
 public:
  struct Array {
    std::string name;
    ArrayHeader header;
    const std::byte* data = nullptr;
    size_t sample_bytes = 0;
  };

  // Returns kInvalid with the file and what is wrong with it: nothing there, arrays of different
  // length, one that is shorter than its header says.
  static Result<Arrays> open(const std::string& folder);
  Arrays(Arrays&& other) noexcept;
  Arrays& operator=(Arrays&&) = delete;
  ~Arrays();

  const std::vector<Array>& arrays() const { return arrays_; }
  int64_t samples() const { return arrays_.front().header.shape.front(); }
  // Returns an error once a file is not as it was at open(): its length or its time of change.
  Result<void> check_unchanged() const;

 private:
  struct Mapping {
    std::string path;
    void* at = nullptr;
    size_t length = 0;
    int64_t changed_ns = 0;
  };

  Arrays() = default;
  Result<void> add(const std::string& path);

  std::vector<Mapping> mappings_;
  std::vector<Array> arrays_;
};

}  // namespace sluice::train
