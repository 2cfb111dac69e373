#include "runtime/sample.h"

#include <cmath>
#include <cstring>

namespace sluice::runtime {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 30;

template <class T>
std::string bytes_of(double value) {
  const T converted = static_cast<T>(value);
  std::string out(sizeof converted, '\0');
  std::memcpy(out.data(), &converted, sizeof converted);
  return out;
}

// The upper half of a float; rounded towards zero.
std::string bf16(double value) {
  return bytes_of<float>(value).substr(2);
}

// IEEE's half, rounded towards zero; what is too small or too large for it is 0 or its largest.
std::string fp16(double value) {
  constexpr int kBias = 15, kMantissa = 1024;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // 0.5 to 1
  const int biased = exponent - 1 + kBias;
  uint16_t bits = 0;
  if (biased > 30)
    bits = 0x7bff;
  else if (fraction > 0 && biased > 0)
    bits = static_cast<uint16_t>(biased * kMantissa +
                                 static_cast<int>((fraction * 2 - 1) * kMantissa));
  if (std::signbit(value)) bits |= 0x8000;
  std::string out(sizeof bits, '\0');
  std::memcpy(out.data(), &bits, sizeof bits);
  return out;
}

std::string element(Datatype type, double value) {
  switch (type) {
    case Datatype::kBool:
    case Datatype::kUint8:
      return bytes_of<uint8_t>(value);
    case Datatype::kUint16:
      return bytes_of<uint16_t>(value);
    case Datatype::kUint32:
      return bytes_of<uint32_t>(value);
    case Datatype::kUint64:
      return bytes_of<uint64_t>(value);
    case Datatype::kInt8:
      return bytes_of<int8_t>(value);
    case Datatype::kInt16:
      return bytes_of<int16_t>(value);
    case Datatype::kInt32:
      return bytes_of<int32_t>(value);
    case Datatype::kInt64:
      return bytes_of<int64_t>(value);
    case Datatype::kFp16:
      return fp16(value);
    case Datatype::kBf16:
      return bf16(value);
    case Datatype::kFp32:
      return bytes_of<float>(value);
    case Datatype::kFp64:
      return bytes_of<double>(value);
    case Datatype::kBytes:
      break;
  }
  return std::string(4, '\0');  // an empty element of BYTES: its length
}

}  // namespace

Result<Tensor> sample_of(const TensorSpec& input, const SampleOf& otherwise) {
  Tensor t{.name = input.name, .datatype = *datatype_from(input.datatype), .shape = input.shape};
  for (size_t i = 0; i < t.shape.size(); ++i) {
    if (t.shape[i] >= 0) continue;
    const bool stated = i < input.sizes.size() && input.sizes[i] > 0;
    t.shape[i] = i == 0 ? otherwise.batch : stated ? input.sizes[i] : otherwise.size;
  }
  SLUICE_ASSIGN(count, element_count(t.shape));
  std::vector<double> values = input.sample;
  if (values.empty()) values.push_back(otherwise.value);
  std::vector<std::string> elements;
  for (const double v : values) elements.push_back(element(t.datatype, v));
  if (count > kMostBytes / static_cast<int64_t>(elements[0].size()))
    return Error{ErrorKind::kInvalid, "'" + input.name + "' is larger than 1 GiB"};
  t.data.reserve(static_cast<size_t>(count) * elements[0].size());
  for (int64_t i = 0; i < count; ++i) t.data += elements[static_cast<size_t>(i) % elements.size()];
  return t;
}

}  // namespace sluice::runtime
