#include "server/storage/inspect.h"

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Statement.h>

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/storage/acknowledged.h"
#include "server/storage/connection.h"
#include "server/storage/data_directory.h"
#include "server/storage/page_sums.h"
#include "server/storage/row_sums.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

// A question to the database: a query for rows of (what, study).
struct Question {
  const char* table;
  const char* sql;
};

// NOT INDEXED, because integrity_check compares the indexes.
constexpr Question kRows[] = {
    {"counter", "SELECT 'the counter ' || name, 0 FROM counter WHERE sum <> " LUTHIER_COUNTER_SUM},
    {"former_spec",
     "SELECT 'its former spec until event ' || until_seq, study FROM former_spec WHERE sum "
     "<> " LUTHIER_FORMER_SPEC_SUM},
    {"trial", "SELECT 'trial ' || number, study FROM trial NOT INDEXED WHERE sum <> " LUTHIER_TRIAL_SUM},
    {"measurement",
     "SELECT 'the point at step ' || step || ' of trial ' || trial || ', attempt ' || attempt, study"
     " FROM measurement WHERE sum <> " LUTHIER_MEASUREMENT_SUM},
    {"event", "SELECT 'event ' || seq, study FROM event NOT INDEXED WHERE sum <> " LUTHIER_EVENT_SUM},
    {"request", "SELECT 'the stored reply to request ' || quote(id), 0 FROM request WHERE sum <> " LUTHIER_REQUEST_SUM},
};
constexpr Question kStudies = {"study", "SELECT 'its row', key FROM study NOT INDEXED WHERE sum <> " LUTHIER_STUDY_SUM};
constexpr Question kStudiesUntil15 = {
    "study", "SELECT 'its row', key FROM study NOT INDEXED WHERE sum <> " LUTHIER_STUDY_SUM_UNTIL_15};
constexpr Question kMissing[] = {
    {"trial",
     "SELECT 'trials: its row says that there are ' || newest_trial || ', and there are ' ||"
     " (SELECT count(*) FROM trial WHERE study = key), key FROM study WHERE id < '~' AND newest_trial <>"
     " (SELECT coalesce(max(number), 0) FROM trial WHERE study = key)"},
    {"event",
     "SELECT 'events: its row says that there are ' || events || ', and there are ' ||"
     " (SELECT count(*) FROM event WHERE study = key), key FROM study WHERE id < '~' AND events <>"
     " (SELECT count(*) FROM event WHERE study = key)"},
    {"trial",
     "SELECT 'trial ' || number || ', whose study is missing', study FROM trial WHERE study NOT IN"
     " (SELECT key FROM study)"},
    {"measurement",
     "SELECT DISTINCT 'points of trial ' || trial || ', which is missing', study FROM measurement AS m"
     " WHERE NOT EXISTS (SELECT 1 FROM trial AS t WHERE t.study = m.study AND t.number = m.trial)"},
};
constexpr char kIntegrity[] = "PRAGMA integrity_check(20)";
constexpr int kChecksummedVersion = 13;
constexpr int kOwnersVersion = 16;
constexpr char kAccessFile[] = "access.db";

class Inspection {
 public:
  explicit Inspection(SQLite::Database* db) : db_(*db) {}

  void Ask(const Question& question) {
    int found = 0;
    const absl::Status status = Guarded([&] {
      SQLite::Statement rows(db_, question.sql);
      while (rows.executeStep()) {
        if (++found > kMostFindings) break;
        Add(Int64Column(rows, 1), StringColumn(rows, 0));
      }
      return absl::OkStatus();
    });
    if (found > kMostFindings) Add(0, absl::StrCat("more of table ", question.table));
    if (!status.ok()) Add(0, absl::StrCat("table ", question.table, ", which can't be read to its end"));
  }

  void AskIntegrity() {
    const absl::Status status = Guarded([&] {
      SQLite::Statement lines(db_, kIntegrity);
      while (lines.executeStep()) {
        const std::string line = StringColumn(lines, 0);
        if (line != "ok") Add(0, absl::StrCat("structure: ", line));
      }
      return absl::OkStatus();
    });
    if (!status.ok()) Add(0, absl::StrCat("structure, which can't be checked: ", status.message()));
  }

  std::vector<Finding> Take() {
    for (Finding& finding : findings_) {
      if (finding.study != 0) finding.study_id = IdOf(finding.study);
    }
    return std::move(findings_);
  }

 private:
  void Add(StudyKey study, std::string what) { findings_.push_back({study, "", std::move(what)}); }

  std::string IdOf(StudyKey key) {
    std::string id;
    (void)Guarded([&] {
      SQLite::Statement row(db_, "SELECT id FROM study WHERE key = ?1 AND id < '~'");
      Bind(row, 1, key);
      if (row.executeStep()) id = StringColumn(row, 0);
      return absl::OkStatus();
    });
    return id;
  }

  SQLite::Database& db_;
  std::vector<Finding> findings_;
};

// Returns the owners of pages, as far as the trees can be walked.
std::map<int64_t, std::string> Owners(const std::string& path, const std::vector<int64_t>& pages) {
  std::map<int64_t, std::string> owners;
  const std::set<int64_t> wanted(pages.begin(), pages.end());
  const absl::StatusOr<std::unique_ptr<SQLite::Database>> db =
      OpenConnection({.path = path, .vfs = "", .unchecked = true});
  if (!db.ok()) return owners;
  (void)Guarded([&] {
    SQLite::Statement rows(**db, "SELECT pageno, pagetype, name FROM dbstat");
    while (rows.executeStep()) {
      const int64_t page = Int64Column(rows, 0);
      if (wanted.count(page) > 0) owners[page] = absl::StrCat(StringColumn(rows, 1), " of ", StringColumn(rows, 2));
    }
    return absl::OkStatus();
  });
  return owners;
}

// Reads all rows of the study; false: some are damaged, or can't be read.
bool IsWhole(SQLite::Database& db, StudyKey study) {
  constexpr char kDamagedStudy[] = "SELECT count(*) FROM study WHERE key = ?1 AND sum <> " LUTHIER_STUDY_SUM;
  constexpr char kDamagedStudyUntil15[] =
      "SELECT count(*) FROM study WHERE key = ?1 AND sum <> " LUTHIER_STUDY_SUM_UNTIL_15;
  constexpr const char* kDamagedRows[] = {
      "SELECT count(*) FROM former_spec WHERE study = ?1 AND sum <> " LUTHIER_FORMER_SPEC_SUM,
      "SELECT count(*) FROM trial INDEXED BY trial_by_state WHERE study = ?1 AND sum <> " LUTHIER_TRIAL_SUM,
      "SELECT count(*) FROM measurement WHERE study = ?1 AND sum <> " LUTHIER_MEASUREMENT_SUM,
      "SELECT count(*) FROM event WHERE study = ?1 AND sum <> " LUTHIER_EVENT_SUM,
      "SELECT newest_trial <> (SELECT coalesce(max(number), 0) FROM trial WHERE study = ?1) OR"
      " events <> (SELECT count(*) FROM event WHERE study = ?1) FROM study WHERE key = ?1",
  };
  const absl::Status status = Guarded([&]() -> absl::Status {
    const auto check = [&](const char* sql) {
      SQLite::Statement count(db, sql);
      Bind(count, 1, study);
      return count.executeStep() && Int64Column(count, 0) == 0 ? absl::OkStatus() : absl::DataLossError("");
    };
    const bool owners = db.execAndGet("PRAGMA user_version").getInt() >= kOwnersVersion;
    LUTHIER_RETURN_IF_ERROR(check(owners ? kDamagedStudy : kDamagedStudyUntil15));
    for (const char* sql : kDamagedRows) LUTHIER_RETURN_IF_ERROR(check(sql));
    return absl::OkStatus();
  });
  return status.ok();
}

// Sorts studies into those that can be served and those that can't, through a connection that checks pages.
void SortStudies(const std::string& path, Diagnosis* diagnosis) {
  const auto db = OpenConnection({.path = path, .vfs = ""});
  std::vector<std::pair<StudyKey, std::string>> studies;
  absl::Status listed = db.status();
  if (listed.ok()) {
    listed = Guarded([&] {
      SQLite::Statement rows(**db, "SELECT key, id FROM study WHERE id > '' AND id < '~' ORDER BY id");
      while (rows.executeStep()) studies.emplace_back(Int64Column(rows, 0), StringColumn(rows, 1));
      return absl::OkStatus();
    });
  }
  if (!listed.ok()) diagnosis->findings.push_back({0, "", "the list of studies, which can't be read to its end"});
  std::set<std::string> named;
  for (const Finding& finding : diagnosis->findings) named.insert(finding.study_id);
  for (const auto& [key, id] : studies) {
    const bool whole = named.count(id) == 0 && IsWhole(**db, key);
    (whole ? diagnosis->whole : diagnosis->damaged).push_back(id);
  }
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Finds events that were acknowledged and are missing.
absl::StatusOr<std::vector<Finding>> InspectEnd(SQLite::Database& db, const std::string& directory,
                                                uint64_t acknowledged) {
  uint64_t last = 0;
  LUTHIER_RETURN_IF_ERROR(Guarded([&] {
    SQLite::Statement newest(db, "SELECT coalesce(max(seq), 0) FROM event");
    newest.executeStep();
    last = Uint64Column(newest, 0);
    return absl::OkStatus();
  }));
  if (CheckAcknowledged(directory, acknowledged, last).ok()) return std::vector<Finding>();
  return std::vector<Finding>{
      {0, "",
       absl::StrCat("the end: event ", acknowledged, " was acknowledged, and the database ends with event ", last,
                    " (a damaged or missing ", DatabasePath(directory), "-wal, or an older copy)")}};
}

}  // namespace

absl::StatusOr<std::vector<Finding>> InspectRows(SQLite::Database& db) {
  int version = 0;
  LUTHIER_RETURN_IF_ERROR(Guarded([&] {
    version = db.execAndGet("PRAGMA user_version").getInt();
    return absl::OkStatus();
  }));
  Inspection inspection(&db);
  const bool studies = !absl::StartsWith(std::filesystem::path(db.getFilename()).filename().string(), kAccessFile);
  const bool ours = db.execAndGet("PRAGMA application_id").getInt() == kApplicationId;
  if (!ours || !db.tableExists(studies ? "study" : "tokens")) {
    return std::vector<Finding>{{0, "",
                                 absl::StrCat("its tables: it is empty, or another database, not that of ",
                                              studies ? "studies" : "tokens, projects and the audit")}};
  }
  if (studies && version >= kChecksummedVersion) {
    inspection.Ask(version >= kOwnersVersion ? kStudies : kStudiesUntil15);
    for (const Question& question : kRows) inspection.Ask(question);
    for (const Question& question : kMissing) inspection.Ask(question);
  }
  inspection.AskIntegrity();
  return inspection.Take();
}

absl::StatusOr<std::vector<Finding>> InspectPages(const std::string& path) {
  LUTHIER_ASSIGN_OR_RETURN(const PageScan scan, ScanPages(path));
  std::vector<Finding> findings;
  if (scan.cut_off)
    findings.push_back({0, "", absl::StrCat("the end of the file, which was cut off after page ", scan.pages)});
  if (scan.wrong.empty()) return findings;
  const std::map<int64_t, std::string> owners = Owners(path, scan.wrong);
  for (const int64_t page : scan.wrong) {
    if (findings.size() >= static_cast<size_t>(kMostFindings)) {
      findings.push_back({0, "", absl::StrCat("pages: ", scan.wrong.size(), " of ", scan.pages, " in all")});
      break;
    }
    const auto owner = owners.find(page);
    findings.push_back(
        {0, "", absl::StrCat("page ", page, owner == owners.end() ? "" : absl::StrCat(" (", owner->second, ")"))});
  }
  return findings;
}

absl::Status ToStatus(const std::string& path, const std::vector<Finding>& findings) {
  if (findings.empty()) return absl::OkStatus();
  constexpr size_t kTold = 5;
  std::string text = absl::StrCat(path, " is damaged: ");
  for (size_t i = 0; i < findings.size() && i < kTold; ++i) {
    const Finding& finding = findings[i];
    absl::StrAppend(&text, i == 0 ? "" : "; ",
                    finding.study_id.empty() ? "" : absl::StrCat("study ", base::Quote(finding.study_id), ": "),
                    finding.what);
  }
  if (findings.size() > kTold) absl::StrAppend(&text, "; and ", findings.size() - kTold, " more");
  return absl::DataLossError(text);
}

absl::StatusOr<std::vector<Finding>> InspectFile(const std::string& path) {
  LUTHIER_ASSIGN_OR_RETURN(std::vector<Finding> findings, InspectPages(path));
  absl::StatusOr<std::vector<Finding>> rows = std::vector<Finding>();
  const auto db = OpenConnection({.path = path, .vfs = "", .unchecked = true});
  if (db.ok()) {
    rows = Guarded([&] { return InspectRows(**db); });
  } else {
    rows = db.status();
  }
  if (!rows.ok()) {
    findings.push_back({0, "", absl::StrCat("the database, which can't be read: ", rows.status().message())});
    return findings;
  }
  findings.insert(findings.end(), std::make_move_iterator(rows->begin()), std::make_move_iterator(rows->end()));
  return findings;
}

absl::StatusOr<std::vector<Finding>> DiagnoseFile(const std::string& path, bool in_use) {
  // Pages of the file that the WAL replaces may hold anything.
  std::error_code no_wal;
  const bool wal = std::filesystem::file_size(path + "-wal", no_wal) > 0 && !no_wal;
  if (!in_use && !wal) return InspectFile(path);
  const auto db = OpenConnection({.path = path, .vfs = ""});
  absl::Status status = db.status();
  if (db.ok()) {
    absl::StatusOr<std::vector<Finding>> rows = Guarded([&] { return InspectRows(**db); });
    if (rows.ok()) return rows;
    status = rows.status();
  }
  return std::vector<Finding>{{0, "", std::string(status.message())}};
}

absl::StatusOr<Diagnosis> Diagnose(const std::string& directory) {
  const std::string path = DatabasePath(directory);
  LUTHIER_ASSIGN_OR_RETURN(const DatabaseKind kind, ProbeDatabase(path, nullptr));
  if (kind == DatabaseKind::kNew) {
    return absl::NotFoundError(absl::StrCat("there is no database in ", base::Quote(directory)));
  }
  Diagnosis diagnosis;
  std::unique_ptr<DirectoryLock> lock;
  if (Exists(directory + "/lock")) {
    absl::StatusOr<std::unique_ptr<DirectoryLock>> acquired = DirectoryLock::Acquire(directory);
    diagnosis.running = !acquired.ok();
    if (acquired.ok()) lock = *std::move(acquired);
  }
  // Read before the database: a server writes it after the database, and opening the database makes a WAL.
  const std::optional<uint64_t> acknowledged = Acknowledged::Read(directory);
  const absl::Status wal = diagnosis.running ? absl::OkStatus() : CheckWalThere(directory, acknowledged);
  LUTHIER_ASSIGN_OR_RETURN(diagnosis.findings, DiagnoseFile(path, diagnosis.running));
  if (!wal.ok()) {
    diagnosis.findings.push_back({0, "", std::string(wal.message())});
  } else if (const auto db = OpenConnection({.path = path, .vfs = ""}); db.ok()) {
    const auto end = InspectEnd(**db, directory, acknowledged.value_or(0));
    if (end.ok()) diagnosis.findings.insert(diagnosis.findings.end(), end->begin(), end->end());
  }
  SortStudies(path, &diagnosis);
  std::error_code ignored;
  if (!wal.ok() && std::filesystem::file_size(path + "-wal", ignored) == 0) {
    // Opening the database made the WAL. With it, the next server would not notice a loss.
    std::filesystem::remove(path + "-wal", ignored);
  }
  return diagnosis;
}

}  // namespace luthier::storage
