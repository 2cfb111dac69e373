#include "train/arrays.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/fd.h"
#include "base/system_error.h"

namespace sluice::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kLongestHeader = 64 * 1024;

Error invalid(std::string what) {
  return {ErrorKind::kInvalid, std::move(what)};
}

// Returns what stands behind 'KEY': in a header such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (100, 3), }
Result<std::string_view> value_of(std::string_view header, std::string_view key) {
  const std::string quoted = "'" + std::string(key) + "'";
  size_t at = header.find(quoted);
  if (at == header.npos) return invalid("its header lacks " + quoted);
  at = header.find(':', at);
  if (at == header.npos) return invalid("its header ends within " + quoted);
  at = header.find_first_not_of(' ', at + 1);
  if (at == header.npos) return invalid("its header ends within " + quoted);
  return header.substr(at);
}

Result<std::vector<int64_t>> shape_from(std::string_view text) {
  std::vector<int64_t> shape;
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == text.npos) return invalid("its shape is no tuple");
  const char *at = text.data() + 1, *last = text.data() + end;
  int64_t numbers = 1;
  while (at != last) {
    if (*at == ' ' || *at == ',') {
      ++at;
      continue;
    }
    int64_t n = 0;
    const auto [next, fault] = std::from_chars(at, last, n);
    if (fault != std::errc() || n < 0) return invalid("its shape holds no whole number");
    if (n > 0 && numbers > std::numeric_limits<int64_t>::max() / 16 / n)
      return invalid("its shape is too large");
    numbers *= std::max<int64_t>(n, 1);
    shape.push_back(n);
    at = next;
  }
  if (shape.empty()) return invalid("is a single number; its first dimension must count samples");
  return shape;
}

int64_t change_time(const struct stat& s) {
  return s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec;
}

// The folder's arrays, in the order of the loss's arguments.
Result<std::vector<std::string>> names_in(const std::string& folder) {
  std::error_code fault;
  std::vector<std::string> names;
  if (std::ifstream index(folder + "/index.json"); index) {
    const auto parsed = nlohmann::json::parse(index, nullptr, false);
    if (!parsed.is_object() || !parsed.contains("arrays") || !parsed["arrays"].is_array())
      return invalid(folder + R"(/index.json: must be {"arrays": ["NAME.npy", …]})");
    for (const auto& name : parsed["arrays"]) {
      if (!name.is_string() || name.get<std::string>().find('/') != std::string::npos)
        return invalid(folder + "/index.json: arrays: must be names of files in the folder");
      names.push_back(name);
    }
  } else {
    for (const auto& entry : fs::directory_iterator(folder, fault))
      if (entry.path().extension() == ".npy") names.push_back(entry.path().filename());
    if (fault) return Error{ErrorKind::kNotFound, folder + ": " + fault.message()};
    std::sort(names.begin(), names.end());
  }
  if (names.empty()) return invalid(folder + ": has no array NAME.npy");
  return names;
}

constexpr std::pair<std::string_view, size_t> kTypes[] = {{"<f4", 4}, {"<f8", 8}, {"<f2", 2},
                                                          {"<i8", 8}, {"<i4", 4}, {"<i2", 2},
                                                          {"|i1", 1}, {"|u1", 1}, {"|b1", 1}};

// One byte has no order, and a machine's own ("=") is little-endian on those that run Sluice.
std::string with_its_order(std::string type) {
  if (type.size() == 3 && type[2] == '1' &&
      std::string_view("<>=").find(type[0]) != std::string_view::npos)
    type[0] = '|';
  if (type[0] == '=') type[0] = '<';
  return type;
}

std::string types_known() {
  std::string text;
  for (const auto& [name, bytes] : kTypes) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace

size_t bytes_of(std::string_view type) {
  for (const auto& [name, bytes] : kTypes)
    if (name == type) return bytes;
  return 0;
}

Result<ArrayHeader> array_header_from(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) return invalid("is no array of NumPy's");
  const auto at = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(bytes[i])); };
  const bool wide = at(6) >= 2;  // format 2.0 on: 32 bits of length
  const size_t begin = wide ? 12 : 10;
  const size_t length = at(8) | at(9) << 8 | (wide ? at(10) << 16 | at(11) << 24 : 0);
  if (length > kLongestHeader || bytes.size() < begin + length)
    return invalid("ends in its header");
  const std::string_view header = bytes.substr(begin, length);
  ArrayHeader out{.data = begin + length};
  SLUICE_ASSIGN(type, value_of(header, "descr"));
  const size_t quote = type.size() > 1 ? type.find('\'', 1) : type.npos;
  if (type[0] != '\'' || quote == type.npos) return invalid("its type is not of one number");
  out.type = with_its_order(std::string(type.substr(1, quote - 1)));
  if (bytes_of(out.type) == 0)
    return invalid("has type '" + out.type.substr(0, 16) +
                   "', which PyTorch's models do not take: " +
                   "save array.astype(TYPE) with one of " + types_known());
  SLUICE_ASSIGN(order, value_of(header, "fortran_order"));
  if (!order.starts_with("False")) return invalid("lies in columns; save it in C order");
  SLUICE_ASSIGN(shape, value_of(header, "shape"));
  SLUICE_ASSIGN(dimensions, shape_from(shape));
  out.shape = std::move(dimensions);
  return out;
}

Result<Arrays> Arrays::open(const std::string& folder) {
  SLUICE_ASSIGN(names, names_in(folder));
  Arrays out;
  for (const std::string& name : names) SLUICE_TRY(out.add((fs::path(folder) / name).string()));
  const Array& first = out.arrays_.front();
  for (const Array& a : out.arrays_)
    if (a.header.shape[0] != first.header.shape[0])
      return invalid(folder + ": " + a.name + " has " + std::to_string(a.header.shape[0]) +
                     " samples, " + first.name + " has " + std::to_string(first.header.shape[0]));
  if (out.samples() == 0) return invalid(folder + ": has no samples");
  if (out.samples() > std::numeric_limits<uint32_t>::max())
    return invalid(folder + ": has " + std::to_string(out.samples()) +
                   " samples; 4294967295 are allowed");
  return out;
}

Result<void> Arrays::add(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat s {};
  if (!file.valid() || fstat(file.get(), &s) != 0) return within(path, system_error("open"));
  Mapping m{path, nullptr, static_cast<size_t>(s.st_size), change_time(s)};
  if (m.length == 0) return invalid(path + ": is empty");
  m.at = mmap(nullptr, m.length, PROT_READ, MAP_SHARED, file.get(), 0);
  if (m.at == MAP_FAILED) return within(path, system_error("mmap"));
  mappings_.push_back(m);
  const auto* bytes = static_cast<const std::byte*>(m.at);
  Result<ArrayHeader> header = array_header_from({reinterpret_cast<const char*>(bytes), m.length});
  if (!header.ok()) return within(path, header.error());
  Array a{fs::path(path).filename(), std::move(*header), nullptr, 0};
  a.data = bytes + a.header.data;
  a.sample_bytes = bytes_of(a.header.type);
  for (size_t d = 1; d < a.header.shape.size(); ++d)
    a.sample_bytes *= static_cast<size_t>(a.header.shape[d]);
  const size_t wanted = a.sample_bytes * static_cast<size_t>(a.header.shape[0]);
  if (m.length - a.header.data < wanted)
    return invalid(path + ": has " + std::to_string(m.length - a.header.data) +
                   " bytes of data; its shape needs " + std::to_string(wanted));
  arrays_.push_back(std::move(a));
  return {};
}

Result<void> Arrays::check_unchanged() const {
  for (const Mapping& m : mappings_) {
    struct stat s {};
    if (stat(m.path.c_str(), &s) != 0) return within(m.path, system_error("stat"));
    if (static_cast<size_t>(s.st_size) != m.length || change_time(s) != m.changed_ns)
      return Error{ErrorKind::kConflict, m.path + ": was changed while the job ran"};
  }
  return {};
}

Arrays::Arrays(Arrays&& other) noexcept
    : mappings_(std::exchange(other.mappings_, {})), arrays_(std::move(other.arrays_)) {}

Arrays::~Arrays() {
  for (const Mapping& m : mappings_) munmap(m.at, m.length);
}

}  // namespace sluice::train
