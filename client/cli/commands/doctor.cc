// The verb that checks a data directory for damage.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/local_server.h"
#include "client/cli/table.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/storage/data_directory.h"
#include "server/storage/held_files.h"
#include "server/storage/inspect.h"

namespace luthier::cli {
namespace {

constexpr char kTokens[] = "access.db";  // Tokens, projects and the audit.

nlohmann::ordered_json FindingsJson(const std::vector<storage::Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const storage::Finding& finding : findings) {
    list.push_back({{"study", finding.study_id}, {"what", finding.what}});
  }
  return list;
}

void PrintFindings(Context& context, const std::string& file, const std::vector<storage::Finding>& findings) {
  context.out() << file << (findings.empty() ? ": whole\n" : ": damaged\n");
  for (const storage::Finding& finding : findings) {
    context.out() << "  "
                  << (finding.study_id.empty() ? "" : absl::StrCat("study ", base::Quote(finding.study_id), ": "))
                  << Printable(finding.what) << "\n";
  }
}

void PrintAdvice(Context& context, const std::string& directory, const storage::Diagnosis& studies, bool access) {
  if (!studies.damaged.empty()) {
    context.out() << "damaged studies: " << absl::StrJoin(studies.damaged, ", ")
                  << (studies.whole.empty() ? "" : "; whole: " + absl::StrJoin(studies.whole, ", ")) << "\n";
  } else if (!studies.findings.empty() && !studies.whole.empty()) {
    context.out() << "no study lost anything that is served: " << absl::StrJoin(studies.whole, ", ") << "\n";
  }
  if (studies.findings.empty() && !access) return;
  context.out() << "what to do: restore the newest backup that this verb finds whole, into a new directory: `luthier "
                   "admin restore FOLDER --db NEW_DIR` (copies made before upgrades are in "
                << storage::BackupsPath(directory) << ").";
  if (!studies.damaged.empty()) {
    context.out() << " Or go on without the damaged studies: `luthier study delete NAME`; `luthier study export NAME` "
                     "saves those that are whole.";
  }
  if (access)
    context.out() << " Without " << kTokens
                  << " and admin.token, moved away, the coordinator starts with new tokens, no projects and no audit.";
  context.out() << "\n";
}

}  // namespace

absl::StatusOr<int> AdminDoctor(Context& context) {
  if (context.options().db.empty()) return UsageError("--db", "name the data directory, or a folder with a backup");
  const std::string directory = DataDirectory(context.options().db);
  LUTHIER_ASSIGN_OR_RETURN(const storage::Diagnosis studies, storage::Diagnose(directory));
  const std::string access_path = directory + "/" + kTokens;
  std::vector<storage::Finding> access;
  std::error_code no_file;
  const bool has_access = std::filesystem::exists(access_path, no_file);
  if (has_access) {
    LUTHIER_ASSIGN_OR_RETURN(access, storage::DiagnoseFile(access_path, studies.running));
  }
  if (const absl::Status lost = storage::CheckTokensNotLost(directory); !lost.ok()) {
    access.push_back({0, "", std::string(lost.message())});
  }
  const bool whole = studies.findings.empty() && access.empty();
  if (context.structured()) {
    context.Print(nlohmann::ordered_json{{"directory", directory},
                                         {"whole", whole},
                                         {"running", studies.running},
                                         {"luthier.db", FindingsJson(studies.findings)},
                                         {kTokens, FindingsJson(access)},
                                         {"damaged_studies", studies.damaged},
                                         {"whole_studies", studies.whole}});
    return whole ? kExitDone : kExitFailed;
  }
  PrintFindings(context, storage::DatabasePath(directory), studies.findings);
  if (has_access || !access.empty()) PrintFindings(context, access_path, access);
  if (studies.running) {
    context.err()
        << "a coordinator has the directory: pages that no row needs were not looked at; stop it to see all\n";
  }
  PrintAdvice(context, directory, studies, !access.empty());
  return whole ? kExitDone : kExitFailed;
}

}  // namespace luthier::cli
