#ifndef LUTHIER_CLIENT_CLI_COMMANDS_EXCHANGE_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_EXCHANGE_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/trial.pb.h"

// Results in files. JSONL has a line {"luthier": 1, "id", "spec"}, then a line for each trial, in the API's JSON:
// nothing is lost. CSV: trial_csv.h.
namespace luthier::cli {

struct ImportFile {
  std::string id;                   // JSONL: id of the study that was exported.
  std::optional<std::string> spec;  // JSONL: the study as a study file.
  std::vector<v1::Trial> trials;
  std::vector<std::string> ignored;  // CSV: columns that are not parameters, metrics, state or step.
  int64_t open = 0;                  // Trials without a result, which are not in `trials`.
  int64_t incomplete = 0;            // CSV: FAILED trials that lack a parameter, which are not in `trials`.
  int64_t beyond = 0;                // CSV: trials that say they are beyond bounds, which the study does not have.
};

// Reads the results of a study with this spec; null: JSONL, which has a spec itself. INVALID_ARGUMENT "source:line:
// ...".
absl::StatusOr<ImportFile> ParseImport(absl::string_view text, absl::string_view source, const v1::StudySpec* spec);

// Returns the line of JSONL for a study or a trial.
std::string StudyLine(const v1::Study& study);
std::string TrialLine(const v1::Trial& trial);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_EXCHANGE_H_
