// Homes of programs: closed folders that programs share. All that name one home run under one uid,
// also after a restart of the daemon, as long as the home has files.
//
//   HOME/       root's, closed to others; the programs may read what root has put there
//   HOME/work/  the programs' own. Its owner is the record of their uid
//
// Free functions; any thread.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>

#include "base/result.h"

namespace sluice::node {

// Returns the uid that a home was given to; 0: none. Returns kInvalid if it is no folder of the
// daemon's user, or others can write to it.
Result<uid_t> owner_of_home(const std::string& home);
// Gives a home to a uid: it and what the former owner has left there.
Result<void> give_home(const std::string& home, uid_t uid);

// Returns the uids that own files where programs can leave some: homes below `homes`
// (NAMESPACE/HOME), and the machine's folders for everyone. Of these only the first level is read:
// a folder that is in them has its maker's uid.
std::set<uid_t> owners_of_files(const std::string& homes);
// The homes' alone.
std::set<uid_t> owners_of_homes(const std::string& homes);

}  // namespace sluice::node
