// Verbs that copy a data directory. They work on its files, so its coordinator need not run.
#include "server/storage/backup.h"

#include <SQLiteCpp/Column.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/local_server.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/storage/connection.h"
#include "server/storage/data_directory.h"
#include "server/storage/inspect.h"
#include "server/storage/sql.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kAccess[] = "access.db";  // Tokens, projects and the audit.
constexpr mode_t kPrivate = 0077;

// Makes copies readable for their owner alone, as the data directory is.
class PrivateFiles {
 public:
  PrivateFiles() : before_(umask(kPrivate)) {}
  ~PrivateFiles() { umask(before_); }
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;

 private:
  const mode_t before_;
};

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Checks a file that nobody has open.
absl::Status CheckWhole(const std::string& path) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::Finding> findings, storage::InspectFile(path));
  return storage::ToStatus(path, findings);
}

absl::Status CopyDatabase(const std::string& from, const std::string& to) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<SQLite::Database> db,
                           storage::OpenConnection({.path = from, .vfs = ""}));
  // SQLite is asked, not the file: the newest commits may be in the WAL.
  const absl::Status ours = storage::Guarded([&]() -> absl::Status {
    if (db->execAndGet("PRAGMA application_id").getInt() == storage::kApplicationId) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(from, ": is no database of ours; there is nothing to copy"));
  });
  LUTHIER_RETURN_IF_ERROR(ours);
  return storage::BackUp(*db, to);
}

// Returns the path, absolute, without a slash at the end.
std::string Folder(const std::string& path) {
  std::string text = fs::absolute(path).lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

void PrintCopy(Context& context, const std::string& what, const std::string& folder, bool access) {
  if (context.structured()) {
    nlohmann::ordered_json json;
    json["folder"] = folder;
    json["files"] = nlohmann::ordered_json::array({fs::path(storage::DatabasePath(folder)).filename().string()});
    if (access) json["files"].push_back(kAccess);
    context.Print(json);
    return;
  }
  context.out() << what << " " << folder << ": studies" << (access ? ", tokens, projects and the audit" : "") << "\n";
}

}  // namespace

absl::StatusOr<int> AdminBackup(Context& context) {
  const PrivateFiles private_files;
  if (context.options().db.empty()) return UsageError("--db", "name the data directory that is copied");
  const std::string directory = DataDirectory(context.options().db), folder = Folder(context.options().out);
  if (!Exists(storage::DatabasePath(directory))) {
    return absl::NotFoundError(absl::StrCat("there is no database in ", base::Quote(directory),
                                            "; --db names the directory that luthierd or `luthier run` made"));
  }
  if (mkdir(folder.c_str(), 0700) != 0) {
    if (errno == EEXIST) {
      return UsageError(
          "--out", absl::StrCat(base::Quote(folder), " is there; name a new folder, so that no backup is overwritten"));
    }
    return UsageError("--out", absl::StrCat(base::Quote(folder), " can't be made: ", std::strerror(errno)));
  }
  const bool access = Exists(directory + "/" + kAccess);
  absl::Status copied = CopyDatabase(storage::DatabasePath(directory), storage::DatabasePath(folder));
  if (copied.ok() && access) copied = CopyDatabase(directory + "/" + kAccess, folder + "/" + kAccess);
  if (!copied.ok()) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return copied;
  }
  PrintCopy(context, "backup in", folder, access);
  return kExitDone;
}

absl::StatusOr<int> AdminRestore(Context& context) {
  const PrivateFiles private_files;
  if (context.options().db.empty()) return UsageError("--db", "name the new data directory that is made");
  const std::string directory = DataDirectory(context.options().db), folder = Folder(context.options().file);
  if (Exists(directory + "/" + kAccess)) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory, "/", kAccess, " exists; restore into a new directory, so that nothing is overwritten"));
  }
  LUTHIER_RETURN_IF_ERROR(storage::Restore(storage::DatabasePath(folder), directory));
  const bool access = Exists(folder + "/" + kAccess);
  if (access) {
    absl::Status copied = CheckWhole(folder + "/" + kAccess);
    if (copied.ok()) copied = CopyDatabase(folder + "/" + kAccess, directory + "/" + kAccess);
    if (!copied.ok()) {
      std::error_code ignored;
      fs::remove(storage::DatabasePath(directory), ignored);  // All files are restored, or none.
      return copied;
    }
  }
  PrintCopy(context, "restored into", directory, access);
  return kExitDone;
}

}  // namespace luthier::cli
