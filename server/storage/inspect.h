#ifndef LUTHIER_SERVER_STORAGE_INSPECT_H_
#define LUTHIER_SERVER_STORAGE_INSPECT_H_

#include <SQLiteCpp/Database.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/storage.h"

// Looks a whole database over for damage: pages, rows, indexes, and whether rows fit each other.
namespace luthier::storage {

struct Finding {
  StudyKey study = 0;    // Whose data it is; 0: of no study, or of nobody knows which.
  std::string study_id;  // Empty where there is no such study (any more).
  std::string what;      // "trial 7", "page 12 (leaf of index trial_by_state)"
};

// At most so many of one kind are told, then that there are more.
inline constexpr int kMostFindings = 20;

// Rows that do not fit their checksums, rows that are missing, and what SQLite's integrity_check says. Works on what
// the connection can see, a server may go on writing. Empty: all is well. Databases of schemas before 13 have no
// checksums of rows. Errors: the database can't be read at all.
absl::StatusOr<std::vector<Finding>> InspectRows(SQLite::Database& db);

// Pages that do not fit their checksums, and a file that was cut off. Nobody may write the file meanwhile.
absl::StatusOr<std::vector<Finding>> InspectPages(const std::string& path);

// DATA_LOSS that lists the findings about the file; OK if there are none.
absl::Status ToStatus(const std::string& path, const std::vector<Finding>& findings);

// All that is known of a file that nobody has open: pages, then rows.
absl::StatusOr<std::vector<Finding>> InspectFile(const std::string& path);

// The same of a file that a server may have: then, and where a WAL is beside it, only what SQLite reads is looked at.
absl::StatusOr<std::vector<Finding>> DiagnoseFile(const std::string& path, bool in_use);

// It says of DIR/luthier.db what somebody has to know who has to act.
struct Diagnosis {
  std::vector<Finding> findings;     // Empty: all is well.
  std::vector<std::string> damaged;  // Ids of studies that have damaged rows, in order, …
  std::vector<std::string> whole;    // … and of those that have not.
  bool running = false;              // A server has it, so pages that nobody reads were not looked at.
};

// Changes nothing. NOT_FOUND when there is no database; errors of ProbeDatabase when it is not ours.
absl::StatusOr<Diagnosis> Diagnose(const std::string& directory);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_INSPECT_H_
