#include "control/local/model_archive.h"

#include <algorithm>
#include <optional>

#include "base/regular_file.h"

namespace sluice::control {
namespace {

// APPNOTE 6.3: signatures and offsets of the records that lead to the directory.
constexpr std::string_view kLocalHeader("PK\3\4", 4), kEnd("PK\5\6", 4), kEnd64("PK\6\6", 4),
    kLocator64("PK\6\7", 4);
constexpr size_t kEndSize = 22, kLocator64Size = 20, kEnd64Size = 56;
constexpr size_t kLongestTail = kEndSize + 65'535;  // with the longest comment
constexpr size_t kLargestDirectory = 16 << 20;      // of some 100,000 tensors
constexpr uint64_t kIn64 = 0xffffffff;              // the number stands in the 64-bit record

struct Extent {
  uint64_t offset = 0, size = 0;
};

uint64_t little_endian(std::string_view bytes) {
  uint64_t n = 0;
  for (size_t i = bytes.size(); i-- > 0;) n = n << 8 | static_cast<unsigned char>(bytes[i]);
  return n;
}

// Returns where the directory lies; nothing if the file does not end as an archive does.
std::optional<Extent> directory_of(const RegularFile& file) {
  const uint64_t size = file.size();
  const uint64_t begin = size - std::min<uint64_t>(size, kLongestTail);
  const std::string tail = file.read(begin, kLongestTail);
  const size_t end = tail.rfind(kEnd);
  if (end == tail.npos || end + kEndSize > tail.size()) return std::nullopt;
  const std::string_view record = std::string_view(tail).substr(end, kEndSize);
  Extent directory{little_endian(record.substr(16, 4)), little_endian(record.substr(12, 4))};
  if (directory.offset != kIn64 && directory.size != kIn64) return directory;
  if (end < kLocator64Size || tail.compare(end - kLocator64Size, 4, kLocator64) != 0)
    return std::nullopt;
  const std::string wide = file.read(
      little_endian(std::string_view(tail).substr(end - kLocator64Size + 8, 8)), kEnd64Size);
  if (wide.size() < kEnd64Size || !wide.starts_with(kEnd64)) return std::nullopt;
  const std::string_view fields(wide);
  return Extent{little_endian(fields.substr(48, 8)), little_endian(fields.substr(40, 8))};
}

// What a file begins with that is no archive, as users meet it in a model's place.
struct Beginning {
  std::string_view bytes, what;
};
constexpr Beginning kBeginnings[] = {
    {"version https://git-lfs.github.com/spec/",
     "a Git LFS pointer: `git lfs pull` fetches the file"},
    {"<", "a page of HTML or XML: a download that failed, or needs a login"},
    {"{", "JSON"},
    {"\x80", "a pickle, such as a state_dict of an old torch.save"},
    {"\x89HDF", "an HDF5 file, as Keras writes it"},
    {"GGUF", "a GGUF file"},
    {"\x1f\x8b", "a gzip archive: unpack it"},
};

std::string not_an_archive(std::string_view head) {
  const size_t text = head.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const std::string_view trimmed = text == head.npos ? head : head.substr(text);
  for (const Beginning& b : kBeginnings)
    if (trimmed.starts_with(b.bytes)) return std::string(b.what);
  // Its header's length, and JSON.
  if (head.size() > 8 && head[8] == '{') return "a safetensors file: weights without a model";
  // Its version, and its producer's name.
  if (head.size() > 2 && head[0] == 8 && head[2] == 0x12) return "an ONNX model";
  return "no zip archive";
}

// What an archive without constants.pkl is, by the names in its directory.
struct Entry {
  std::string_view name, what;
};
constexpr Entry kEntries[] = {
    {"serialized_exported_program.json", "an archive of torch.export"},
    {"archive_format", "an archive of torch.export (.pt2)"},
    {"MAR-INF/", "an archive of TorchServe: the module is inside"},
    {".npy", "an archive of NumPy's arrays"},
};

std::string not_a_module(std::string_view directory) {
  for (const Entry& e : kEntries)
    if (directory.find(e.name) != directory.npos) return std::string(e.what);
  if (directory.find("/data.pkl") != directory.npos && directory.find("/version") != directory.npos)
    return "a state_dict or another object of torch.save";
  return "an archive without constants.pkl";
}

}  // namespace

Result<void> check_model_archive(const std::string& path) {
  const auto invalid = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, path + ": " + why};
  };
  SLUICE_ASSIGN(file, RegularFile::open(path));
  const uint64_t size = file.size();
  if (file.read(0, 4) != kLocalHeader)
    return invalid("is no TorchScript model (it is " + not_an_archive(file.read(0, 64)) + ")");
  const std::optional<Extent> directory = directory_of(file);
  if (!directory || directory->size > size || directory->offset > size - directory->size)
    return invalid("is truncated (" + std::to_string(size) + " bytes, its directory is missing)");
  if (directory->size > kLargestDirectory)
    return invalid("its directory has " + std::to_string(directory->size) + " bytes; at most " +
                   std::to_string(kLargestDirectory) + " are allowed");
  const std::string names = file.read(directory->offset, directory->size);
  if (names.find("/constants.pkl") == std::string::npos)
    return invalid("is no TorchScript model (" + not_a_module(names) +
                   "; torch.jit.save makes one with it)");
  return {};
}

}  // namespace sluice::control
