#include "enforce/memory_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <utility>

#include "base/system_error.h"

namespace sluice::node {
namespace {

constexpr uint64_t kMagic = 0x3152434d45434c53;  // "SLCEMCR1"
constexpr size_t kNameRoom = 224;

struct Head {
  uint64_t magic = kMagic;
  char boot[248] = {};
};
struct Written {
  int64_t held = 0, context = 0;
  uint64_t start_time = 0;
  int32_t pid = 0;  // 0, as is the start time: the slot is free
  uint32_t reserved = 0;
  char slice[kNameRoom] = {};
};
// No slot lies on two pages: a kill could leave one of them unwritten.
static_assert(sizeof(Head) == 256 && sizeof(Written) == 256);

template <size_t N>
void put(char (&to)[N], const std::string& text) {
  text.copy(to, N - 1);
}
template <size_t N>
std::string text_of(const char (&from)[N]) {
  return std::string(from, strnlen(from, N));
}

template <class T>
Result<void> write_at(int file, MemoryRecord::Slot slot, const T& what) {
  const ssize_t n = pwrite(file, &what, sizeof what, slot * static_cast<off_t>(sizeof what));
  if (n == static_cast<ssize_t>(sizeof what)) return {};
  return system_error("the record of memory", n < 0 ? errno : ENOSPC);
}

Error not_understood(const std::string& why) {
  return {ErrorKind::kInvalid,
          "cannot be understood (" + why +
              "); it says what running programs hold of GPUs' memory. End the programs that hold "
              "any, then remove the file: started without it, the node would lend that memory "
              "again"};
}

// Returns nothing at the end of the file.
template <class T>
Result<std::optional<T>> read_at(int file, MemoryRecord::Slot slot) {
  T what;
  const ssize_t n = pread(file, &what, sizeof what, slot * static_cast<off_t>(sizeof what));
  if (n < 0) return system_error("the record of memory");
  return n == static_cast<ssize_t>(sizeof what) ? std::optional(what) : std::nullopt;
}

}  // namespace

Result<MemoryRecord> MemoryRecord::open(const std::string& path, bool same_boot) {
  SLUICE_ASSIGN(boot, boot_id());
  Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return system_error(path);
  MemoryRecord record(std::move(file));
  const Result<bool> is_ours = record.is_of(boot, same_boot);
  if (!is_ours.ok()) return within(path, is_ours.error());
  const Result<void> begun = *is_ours ? record.load() : record.begin(boot);
  if (!begun.ok()) return within(path, begun.error());
  return record;
}

Result<bool> MemoryRecord::is_of(const std::string& boot, bool same_boot) const {
  SLUICE_ASSIGN(head, read_at<Head>(file_.get(), 0));
  const bool empty = !head && lseek(file_.get(), 0, SEEK_END) == 0;
  if (same_boot && !empty && (!head || head->magic != kMagic))
    return not_understood("its head is of no record of memory");
  return same_boot && head && text_of(head->boot) == boot;
}

Result<void> MemoryRecord::begin(const std::string& boot) {
  if (ftruncate(file_.get(), 0) != 0) return system_error("the record of memory");
  Head head;
  put(head.boot, boot);
  return write_at(file_.get(), 0, head);
}

Result<void> MemoryRecord::load() {
  for (;; ++end_) {
    SLUICE_ASSIGN(found, read_at<Written>(file_.get(), end_));
    if (!found) return {};
    if (found->pid == 0 && found->start_time == 0) {
      free_.insert(end_);
      continue;
    }
    const std::string slice = text_of(found->slice);
    if (found->pid < 0 || found->held < 0 || found->context < 0 || slice.empty())
      return not_understood("slot " + std::to_string(end_) + " names no process and what it holds");
    before_[slice][end_] = {.slice = slice,
                            .process = {.pid = found->pid, .start_time = found->start_time},
                            .held = found->held,
                            .context = found->context};
  }
}

std::map<MemoryRecord::Slot, Holding> MemoryRecord::take(const std::string& slice) {
  const auto found = before_.extract(slice);
  return found ? std::move(found.mapped()) : std::map<Slot, Holding>();
}

void MemoryRecord::forget_others() {
  for (const auto& [slice, slots] : std::exchange(before_, {}))
    for (const auto& [slot, holding] : slots) remove(slot);
}

Result<MemoryRecord::Slot> MemoryRecord::add(const Holding& holding) {
  const Slot slot = free_.empty() ? end_ : *free_.begin();
  SLUICE_TRY(write(slot, holding));
  if (slot == end_)
    ++end_;
  else
    free_.erase(slot);
  return slot;
}

Result<void> MemoryRecord::write(Slot slot, const Holding& holding) {
  Written written{.held = holding.held,
                  .context = holding.context,
                  .start_time = holding.process.start_time,
                  .pid = holding.process.pid};
  put(written.slice, holding.slice);
  return write_at(file_.get(), slot, written);
}

// A slot that cannot be written stays, as that of an ended process.
void MemoryRecord::remove(Slot slot) {
  if (write_at(file_.get(), slot, Written{}).ok()) free_.insert(slot);
}

}  // namespace sluice::node
