#ifndef LUTHIER_LIB_BASE_OWNERSHIP_H_
#define LUTHIER_LIB_BASE_OWNERSHIP_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace luthier::base {

// Says how the folder counts in which a relative path begins: it is checked as every other folder is, or trusted, as by
// a program that reads its study and its scripts there.
enum class CurrentFolder { kChecked, kTrusted };

// Checks who may have put a file where it is. A program that takes files unasked, by a name that everybody knows, must
// not take those of other users: a socket by such a name would get its token. OK if `uid` and root alone can have put
// what is at `path` there, and they alone can put something else in its place:
//  * it belongs to `uid` or to root, and so do the folders on the way and the links, which are followed;
//  * others can't write to these folders. One with the sticky bit, such as /tmp, is in order as far as it only leads
//  on:
//    there nobody replaces what is ours. So is one that a group may write to in which `uid`, or root, is alone;
//  * if it is a folder itself, others can't write to it, either. Of other files the mode is not looked at: that of a
//    socket says who may connect.
// The folders above the current one are not looked at for a relative path: no process is moved by them.
// NOT_FOUND: nothing is there. FAILED_PRECONDITION: says which of the conditions fails, and where.
absl::Status CheckOwnership(const std::string& path, uid_t uid, CurrentFolder current = CurrentFolder::kChecked);

// The name of a user, else its number: "games", "user 1234".
std::string UserName(uid_t uid);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_OWNERSHIP_H_
