#include "control/model_archive.h"

#include <algorithm>
#include <optional>

#include "control/regular_file.h"

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

}  // namespace

Result<void> check_model_archive(const std::string& path) {
  const auto invalid = [&](const std::string& why) {
    return Error{ErrorKind::kInvalid, path + ": " + why};
  };
  SLUICE_ASSIGN(file, RegularFile::open(path));
  const uint64_t size = file.size();
  if (file.read(0, 4) != kLocalHeader)
    return invalid("is no TorchScript model (it is no zip archive)");
  const std::optional<Extent> directory = directory_of(file);
  if (!directory || directory->size > size || directory->offset > size - directory->size)
    return invalid("is truncated (" + std::to_string(size) + " bytes, its directory is missing)");
  if (directory->size > kLargestDirectory)
    return invalid("its directory has " + std::to_string(directory->size) + " bytes; at most " +
                   std::to_string(kLargestDirectory) + " are allowed");
  if (file.read(directory->offset, directory->size).find("/constants.pkl") == std::string::npos)
    return invalid(
        "is no TorchScript model (an archive without constants.pkl; torch.jit.save "
        "makes one with it)");
  return {};
}

}  // namespace sluice::control
