#ifndef LUTHIER_SERVER_STORAGE_INSPECT_H_
#define LUTHIER_SERVER_STORAGE_INSPECT_H_

#include <SQLiteCpp/Database.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/storage/storage.h"

// Inspects a whole database for damage: pages, rows, indexes, and whether rows fit each other.
namespace luthier::storage {

struct Finding {
  StudyKey study = 0;    // Owner of the data; 0: no study, or an unknown one.
  std::string study_id;  // Empty if there is no such study (any more).
  std::string what;      // "trial 7", "page 12 (leaf of index trial_by_state)"
};

// Largest number of findings of one kind that are listed; then one says that there are more.
inline constexpr int kMostFindings = 20;

// Finds rows that do not fit their checksums, rows that are missing, and what SQLite's integrity_check reports. It
// inspects what the connection can see; a server may go on writing. Empty: all is well. Databases of schemas before 13
// have no checksums of rows. Errors: the database can't be read at all.
absl::StatusOr<std::vector<Finding>> InspectRows(SQLite::Database& db);

// Finds pages that do not fit their checksums, and a file that was cut off. Nobody may write the file meanwhile.
absl::StatusOr<std::vector<Finding>> InspectPages(const std::string& path);

// Returns DATA_LOSS that lists the findings about the file; OK if there are none.
absl::Status ToStatus(const std::string& path, const std::vector<Finding>& findings);

// Inspects a file that nobody has open: pages, then rows.
absl::StatusOr<std::vector<Finding>> InspectFile(const std::string& path);

// Inspects a file that a server may have open. If it has, or if a WAL is beside the file, only what SQLite reads is
// inspected.
absl::StatusOr<std::vector<Finding>> DiagnoseFile(const std::string& path, bool in_use);

// Report on DIR/luthier.db for the person who has to act.
struct Diagnosis {
  std::vector<Finding> findings;     // Empty: all is well.
  std::vector<std::string> damaged;  // Ids of studies that have damaged rows, in order.
  std::vector<std::string> whole;    // Ids of studies that have none.
  bool running = false;  // True if a server has the file open, so that pages that nobody reads were not inspected.
};

// Inspects without changing anything. NOT_FOUND if there is no database; errors of ProbeDatabase if it is not ours.
absl::StatusOr<Diagnosis> Diagnose(const std::string& directory);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_INSPECT_H_
