// Study files, YAML and JSON: yaml_spec.h promises that what Parse takes, the service takes, and that ToYaml writes a
// file that reads back to an equal spec.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/search/registry.h"
#include "lib/study/study_spec.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"
#include "lib/wire/yaml_spec.h"
#include "tests/fuzz/fuzz.h"

namespace luthier {
namespace {

void CheckRound(const study::StudySpec& spec, const std::string& text, absl::string_view form) {
  const auto again = wire::StudyFile::Parse(text, "again.yaml");
  fuzz::Must(again.ok(), absl::StrCat("the ", form, " of a study is a study file"),
             absl::StrCat(again.status().ToString(), "\n", text));
  const auto read = wire::FromProto(again->spec());
  fuzz::Must(read.ok(), absl::StrCat("the ", form, " of a study is accepted"), read.status().ToString());
  fuzz::Must(*read == spec, absl::StrCat("the ", form, " of a study reads back equal"), text);
}

}  // namespace

LUTHIER_FUZZ_TARGET(study_file) {
  const auto file = wire::StudyFile::Parse(input, "study.yaml");
  if (!file.ok()) {
    fuzz::Must(absl::IsInvalidArgument(file.status()), "a bad file is an invalid argument", file.status().ToString());
    return fuzz::MustExplain(file.status());
  }
  const auto spec = wire::FromProto(file->spec());
  fuzz::Must(spec.ok(), "what Parse takes, FromProto takes", spec.status().ToString());
  const absl::Status legal = study::ValidateNewSpec(*spec);
  fuzz::Must(legal.ok(), "what Parse takes, ValidateNewSpec takes", legal.ToString());
  if (const absl::Status searched = search::Validate(*spec); !searched.ok()) {
    fuzz::MustExplain(file->Locate(searched));
  }
  if (const auto* const builtin = std::get_if<study::BuiltinObjective>(&spec->objective)) {
    const absl::Status known = catalogue::Validate(*builtin, spec->space, spec->metric);
    if (!known.ok()) fuzz::MustExplain(file->Locate(known));
  }
  // As the service answers it: with every default written out.
  const v1::StudySpec whole = wire::ToProto(*spec);
  CheckRound(*spec, wire::ToYaml(whole), "YAML");
  CheckRound(*spec, wire::ToJson(whole).dump(), "JSON");
}

}  // namespace luthier
