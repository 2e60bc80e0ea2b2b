#ifndef LUTHIER_SERVER_ACCESS_CALLER_H_
#define LUTHIER_SERVER_ACCESS_CALLER_H_

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/study/project.h"

namespace luthier::access {

enum class Role { kViewer, kUser, kWorker, kAdmin, kMaintainer };
inline constexpr Role kRoles[] = {Role::kViewer, Role::kUser, Role::kWorker, Role::kAdmin, Role::kMaintainer};

// "viewer", "user", "worker", "admin", "maintainer".
absl::string_view ToString(Role role);

// A right is what a call does; docs/guide/security.md has the table of roles.
enum class Right {
  kSee,    // Reads one study or trial.
  kRead,   // Reads everything in a project.
  kWork,   // Asks for trials, and reports under leases.
  kWrite,  // Creates, changes, controls, deletes.
  kAdmin,  // Tokens, projects, the audit.
};

// Who makes a call: the holder of a token, the coordinator's own user on its socket, or anyone where no token is
// needed.
struct Caller {
  std::string token;                                             // Its id; empty: none was needed.
  std::string name;                                              // The token's name; "socket" or "anyone" without one.
  std::string project = study::kDefaultProject;                  // Calls that name none mean this one: the first.
  std::vector<std::string> projects = {study::kDefaultProject};  // All that the token is for.
  std::set<Role> roles = {Role::kAdmin};
  bool commands = true;  // May create and change studies with a command of their own.
  bool page = false;     // The token of a page, whose name means nobody.

  bool may(Right right) const;
  bool any_project() const { return roles.count(Role::kAdmin) > 0; }
  bool has(absl::string_view id) const { return std::find(projects.begin(), projects.end(), id) != projects.end(); }
  // True if the caller may change and delete the studies of others.
  bool maintains() const { return token.empty() || any_project() || roles.count(Role::kMaintainer) > 0; }

  // Returns the caller's name as an owner of studies in `project`: "NAME", and "PROJECT/NAME" outside of "default".
  // Tokens have names of their own in each of their projects. Empty for callers without a token, and for pages.
  std::string Owner(const std::string& of) const;

  // Names and secrets as the core knows them. They differ for each token, so that another caller can't use those of
  // this one, whatever it sends.
  //  * worker that asks for trials of the project `of`: "NAME/worker", and "PROJECT/NAME/worker" outside of "default".
  //    It has a name in each of the token's projects, so that none tells of another;
  //  * request id: "TOKEN/request id"; empty stays empty;
  //  * lease: the bytes of the lease's token, combined with those of the caller's. Applied twice, it gives the first
  //    bytes.
  std::string Worker(const std::string& worker, absl::string_view of) const;
  std::string RequestId(const std::string& request_id) const;
  std::string Lease(std::string lease) const;
};

}  // namespace luthier::access

#endif  // LUTHIER_SERVER_ACCESS_CALLER_H_
