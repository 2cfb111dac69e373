#include "node/uid_claim.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "base/system_error.h"

namespace sluice::node {
namespace {

// 65000 to 65999 are the system's, including "nobody" and the 16-bit value for no uid.
constexpr uid_t kFirstBlock = 61000, kLastBlock = 99000, kSystemBlock = 65000;

std::string name_of(uid_t first) {
  return std::to_string(first) + " to " + std::to_string(first + kUidsPerBlock - 1);
}

// Returns each uid that a process runs under, with one such process. (The owner of /proc/PID is
// less exact: root, for a process that has changed its uid.)
std::map<uid_t, pid_t> uids_in_use() {
  std::map<uid_t, pid_t> used;
  std::error_code fault;
  std::filesystem::directory_iterator process("/proc", fault), end;
  for (; !fault && process != end; process.increment(fault)) {
    const pid_t pid = std::atoi(process->path().filename().c_str());
    if (pid <= 0) continue;
    std::ifstream status(process->path() / "status");
    for (std::string word, state; status >> word;) {
      if (word == "State:" && status >> state && state == "Z") break;  // ended
      if (uid_t uid = 0; word == "Uid:" && status >> uid) {
        used.emplace(uid, pid);
        break;
      }
    }
  }
  return used;
}

std::vector<uid_t> candidates(const UidRequest& request) {
  if (request.first != 0) return {request.first};
  std::vector<uid_t> blocks;
  for (const uid_t uid : request.ours) blocks.push_back(block_of(uid));
  for (const uid_t uid :
       request.files)  // a user's own, from a time without root, are no instance's
    if (const uid_t block = block_of(uid); block >= kFirstBlock && block != kSystemBlock)
      blocks.push_back(block);
  for (uid_t block = kFirstBlock; block <= kLastBlock; block += kUidsPerBlock)
    if (block != kSystemBlock) blocks.push_back(block);
  return blocks;
}

// Returns nothing if the block is now locked; else why it is not free.
Result<std::string> lock_block(const Fd& file, const std::string& path, uid_t first) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(first);
  range.l_len = kUidsPerBlock;
  if (fcntl(file.get(), F_SETLK, &range) == 0) return std::string();
  if (errno != EACCES && errno != EAGAIN) return system_error(path);
  if (fcntl(file.get(), F_GETLK, &range) != 0) return system_error(path);
  return "claimed by the node daemon of another platform, process " + std::to_string(range.l_pid);
}

void unlock(const Fd& file) {
  struct flock all {};
  all.l_type = F_UNLCK;
  all.l_whence = SEEK_SET;
  (void)fcntl(file.get(), F_SETLK, &all);
}

std::string stranger_in(uid_t first, const std::set<uid_t>& ours) {
  for (const auto& [uid, pid] : uids_in_use())
    if (uid >= first && uid - first < kUidsPerBlock && !ours.contains(uid))
      return "process " + std::to_string(pid) + ", no instance of this platform, runs as " +
             std::to_string(uid);
  return "";
}

}  // namespace

Result<UidClaim> claim_uids(const UidRequest& request) {
  Fd file(open(request.file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return system_error(request.file);
  std::string passed_over;
  for (const uid_t first : candidates(request)) {
    SLUICE_ASSIGN(taken, lock_block(file, request.file, first));
    if (taken.empty()) taken = stranger_in(first, request.ours);
    if (taken.empty()) return UidClaim{first, std::move(file), passed_over};
    unlock(file);
    const std::string why = "uids " + name_of(first) + " are taken: " + taken;
    if (request.first != 0) return Error{ErrorKind::kConflict, "first-uid: " + why};
    if (passed_over.empty()) passed_over = why;
  }
  return Error{ErrorKind::kExhausted,
               "no block of uids is free up to " + std::to_string(kLastBlock) + "; " + passed_over};
}

}  // namespace sluice::node
