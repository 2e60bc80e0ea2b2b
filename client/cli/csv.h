#ifndef LUTHIER_CLIENT_CLI_CSV_H_
#define LUTHIER_CLIENT_CLI_CSV_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Fields of CSV, RFC 4180 with \n. A text that a spreadsheet would run as a formula gets a leading ', as spreadsheets
// mark texts themselves. So does a text that begins with such a ', so that removing one gives the text again.
namespace luthier::cli {

// True if a spreadsheet would take the text for a formula: it begins with = + - @, tab or CR, and is no number.
bool LooksLikeFormula(absl::string_view text);

// Returns `text` with a ' before it if Unmarked would change it, or a spreadsheet would run it.
std::string MarkedFormula(absl::string_view text);
// Does the same, also for texts that look like a number or a switch, as the label "7" does.
std::string MarkedText(absl::string_view text);
// Removes the mark. `marked`, if not null, is set to true if there was one.
std::string Unmarked(absl::string_view field, bool* marked = nullptr);

// Returns the text in quotes if it needs them.
std::string CsvField(absl::string_view text);

// Reads the fields of one record after another: commas, "quoted fields" with "" for a quote and line ends, CR LF or CR.
// Blanks around a field that is not quoted do not belong to it. INVALID_ARGUMENT "source:line: ..." for a quote that is
// not closed, for texts in UTF-16 and for a header with another separator.
absl::StatusOr<std::vector<std::vector<std::string>>> ParseCsv(absl::string_view text, absl::string_view source);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_CSV_H_
