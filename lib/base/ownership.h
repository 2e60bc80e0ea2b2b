#ifndef LUTHIER_LIB_BASE_OWNERSHIP_H_
#define LUTHIER_LIB_BASE_OWNERSHIP_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace luthier::base {

// Says how the folder is checked in which a relative path begins: as every other folder, or not at all, as by a program
// that reads its study and its scripts there.
enum class CurrentFolder { kChecked, kTrusted };

// Checks who may have put a file where it is. A program that takes files unasked, by a name that everybody knows, must
// not take those of other users: a socket by such a name would get its token. Returns OK if only `uid` and root can
// have put the file at `path` there, and only they can replace it:
//
//  * the file belongs to `uid` or to root, and so do the folders on the way and the links, which are followed;
//  * others can't write to these folders. There are two exceptions: a folder with the sticky bit, such as /tmp, if the
//    path only leads through it, as others can't replace our files there; and a folder that a group may write to, if
//    `uid` or root is the only member of that group;
//  * if the file is a folder itself, others can't write to it, either. The mode of other files is not checked: that of
//    a socket says who may connect.
//
// For a relative path the folders above the current one are not checked: no process is moved by them.
// Returns NOT_FOUND if there is no file, and FAILED_PRECONDITION naming the condition that fails and the place.
absl::Status CheckOwnership(const std::string& path, uid_t uid, CurrentFolder current = CurrentFolder::kChecked);

// Returns the name of a user, or its number if it has none: "games", "user 1234".
std::string UserName(uid_t uid);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_OWNERSHIP_H_
