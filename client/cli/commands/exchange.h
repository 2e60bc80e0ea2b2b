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

// Results in files. JSONL: a line {"luthier": 1, "id", "spec"}, then a line for each trial, as the API's JSON has it:
// nothing is lost. CSV: a header and a row for each result, with columns for parameters, metrics, `state` and `step`.
namespace luthier::cli {

// The fields of one CSV record after another: commas, "quoted fields" with "" for a quote and line ends, CR LF.
// INVALID_ARGUMENT "source:line: ..." for a quote that is not closed.
absl::StatusOr<std::vector<std::vector<std::string>>> ParseCsv(absl::string_view text, absl::string_view source);

struct ImportFile {
  std::string id;                   // JSONL: of the study that was exported.
  std::optional<std::string> spec;  // JSONL: the study as a study file.
  std::vector<v1::Trial> trials;
  std::vector<std::string> ignored;  // CSV: columns that are no parameters, metrics, state or step.
  int64_t open = 0;                  // JSONL: trials that had no result, and are not in `trials`.
};

// Reads the results of a study with this spec; null: JSONL, which brings its own. INVALID_ARGUMENT "source:line: ...".
absl::StatusOr<ImportFile> ParseImport(absl::string_view text, absl::string_view source, const v1::StudySpec* spec);

// One line of JSONL each.
std::string StudyLine(const v1::Study& study);
std::string TrialLine(const v1::Trial& trial);

// The names of a file's columns for a message: quoted, at most ten.
std::string SomeColumns(const std::vector<std::string>& names);

// A spec for the columns of a CSV file with the results of `metric`: floats over the range that they span, integers,
// and categoricals for what are no numbers. `ignored`: columns to leave out. INVALID_ARGUMENT for no such column.
absl::StatusOr<v1::StudySpec> GuessSpec(absl::string_view text, absl::string_view source, const std::string& metric,
                                        bool maximize, const std::vector<std::string>& ignored);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_EXCHANGE_H_
