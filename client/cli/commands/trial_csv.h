#ifndef LUTHIER_CLIENT_CLI_COMMANDS_TRIAL_CSV_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_TRIAL_CSV_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/trial.pb.h"

// Results as a table, in CSV (client/cli/csv.h): a header and a row for each trial. The name of a column decides its
// meaning:
//
//   params_NAME   a parameter; a vector's cell is a JSON list, [0.1,0.2]
//   METRIC        the study's metric, or else metrics_METRIC, or value
//   metrics_NAME  another metric
//   attrs_NAME    an attribute; user_attrs_NAME, too
//   feasible      nothing, as it follows from the metrics; written in studies with bounds
//   state, step   of the result; states are Optuna's as well (FAIL, RUNNING, WAITING, TrialState.COMPLETE)
//   reserved      nothing: number, value, datetime_…, duration, … (tests/data/tables/format.json lists them)
//   NAME          a parameter, where the study has one of that name and no column params_NAME; in a table that makes a
//                 study, where no column is marked with params_
//
// An empty cell is no value. The Python package has the same reader and writer (luthier/table.py): the vectors in
// tests/data/tables/format.json are read by the tests of both.
namespace luthier::cli {

struct TableTrials {
  std::vector<v1::Trial> trials;
  std::vector<std::string> ignored;  // Columns that have none of these meanings.
  int64_t open = 0;                  // Rows of trials without a result.
  int64_t incomplete = 0;            // Rows of FAILED trials that lack a parameter.
  int64_t beyond = 0;                // Rows that say they are beyond bounds, which the study does not have.
};

// Writes all trials, open ones included. Numbers are exact. Texts that a spreadsheet would run are marked.
void WriteTrialsCsv(const v1::StudySpec& spec, const std::vector<v1::Trial>& trials, std::ostream& out);

// Reads the results of a study with this spec. INVALID_ARGUMENT "source:line: ...".
absl::StatusOr<TableTrials> ReadTrialsCsv(absl::string_view text, absl::string_view source, const v1::StudySpec& spec);

// Guesses a spec for a table with the results of `metric`: floats over the range that they span, in the logarithm if
// that is more than two powers of ten; integers; switches; and labels for columns that are not numbers, for marked
// texts and for integers beyond 2^53. A parameter that some rows lack exists where another parameter has one of the
// values that it has in the rows with it. `ignored` has the columns to leave out. INVALID_ARGUMENT for a table without
// the metric, for decimal commas, and for empty cells that nothing explains.
absl::StatusOr<v1::StudySpec> GuessSpec(absl::string_view text, absl::string_view source, const std::string& metric,
                                        bool maximize, const std::vector<std::string>& ignored);

// Returns the names of a table's columns that are never parameters, and prefixes of such names.
const std::vector<std::string>& ReservedColumns();
const std::vector<std::string>& ReservedPrefixes();

// Returns the names of a file's columns for a message: quoted, at most ten.
std::string SomeColumns(const std::vector<std::string>& names);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_TRIAL_CSV_H_
