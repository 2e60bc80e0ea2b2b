#include "client/cli/commands/exchange.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/trial_csv.h"
#include "client/cli/show.h"
#include "lib/base/status_macros.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kMark[] = "luthier";

absl::Status At(absl::string_view source, size_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ":", line, ": ", what));
}

bool HasResult(const v1::Trial& trial) {
  return trial.state() == v1::Trial::COMPLETE || trial.state() == v1::Trial::PRUNED ||
         (trial.state() == v1::Trial::FAILED && trial.retried_by() == 0);
}

absl::Status ParseHeader(const Json& line, absl::string_view source, ImportFile* file) {
  if (!line.contains("spec")) return At(source, 1, "the line of the study has no \"spec\"");
  file->id = line.value("id", "");
  file->spec = line["spec"].dump();
  return absl::OkStatus();
}

absl::StatusOr<ImportFile> ParseJsonl(absl::string_view text, absl::string_view source) {
  ImportFile file;
  size_t number = 0;
  for (const absl::string_view raw : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(raw);
    if (line.empty()) continue;
    if (file.trials.empty() && !file.spec && file.open == 0 && absl::StrContains(line.substr(0, 20), kMark)) {
      const Json header = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!header.is_object()) return At(source, number, "is no JSON object");
      LUTHIER_RETURN_IF_ERROR(ParseHeader(header, source, &file));
      continue;
    }
    v1::Trial trial;
    // A newer program may write more fields.
    const absl::Status parsed = wire::FromJson(std::string(line), /*unknown_fields=*/true, &trial);
    if (!parsed.ok()) return At(source, number, absl::StrCat("is no trial: ", std::string(parsed.message())));
    if (HasResult(trial)) {
      file.trials.push_back(std::move(trial));
    } else {
      ++file.open;
    }
  }
  if (file.trials.empty() && !file.spec) return At(source, number, "there are no trials");
  return file;
}

}  // namespace

absl::StatusOr<ImportFile> ParseImport(absl::string_view text, absl::string_view source, const v1::StudySpec* spec) {
  const absl::string_view begin = absl::StripLeadingAsciiWhitespace(text);
  if (absl::StartsWith(begin, "{")) return ParseJsonl(text, source);
  if (spec == nullptr) return At(source, 1, "is no JSONL; of a CSV file say with --metric which column is the result");
  LUTHIER_ASSIGN_OR_RETURN(TableTrials table, ReadTrialsCsv(text, source, *spec));
  ImportFile file;
  file.trials = std::move(table.trials);
  file.ignored = std::move(table.ignored);
  file.open = table.open;
  file.incomplete = table.incomplete;
  file.beyond = table.beyond;
  return file;
}

std::string StudyLine(const v1::Study& study) {
  Json line = Json::object();
  line[kMark] = 1;
  line["id"] = IdOf(study);
  line["spec"] = wire::ToJson(study.spec());
  return JsonText(line);
}

std::string TrialLine(const v1::Trial& trial) {
  return JsonText(wire::ToJson(trial));
}

}  // namespace luthier::cli
