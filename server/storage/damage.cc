#include "server/storage/damage.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::storage {
namespace {

constexpr char kPayload[] = "luthier.storage/damaged-study";

absl::Status Make(StudyKey study, absl::string_view message) {
  absl::Status status = absl::DataLossError(message);
  const std::string text = absl::StrCat(study);
  // Made from a string_view: compilers mangle the constructor that takes a string in different ways.
  status.SetPayload(kPayload, absl::Cord(absl::string_view(text)));
  return status;
}

}  // namespace

absl::Status Damaged(StudyKey study, absl::string_view what) {
  return Make(study, absl::StrCat(what,
                                  " is damaged: the database does not hold what was written. `luthier admin doctor"
                                  " --db DIR` says what is lost and what to do: restore a backup, or delete the"
                                  " study"));
}

bool IsDamage(const absl::Status& status) {
  return status.GetPayload(kPayload).has_value();
}

StudyKey DamagedStudy(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  StudyKey key = 0;
  return payload && absl::SimpleAtoi(std::string(*payload), &key) ? key : 0;
}

absl::Status DamageOf(const absl::Status& damage, StudyKey study, absl::string_view id) {
  if (!IsDamage(damage)) return damage;
  const StudyKey key = DamagedStudy(damage) != 0 ? DamagedStudy(damage) : study;
  return Make(key, id.empty() ? std::string(damage.message())
                              : absl::StrCat("study ", base::Quote(id), ": ", damage.message()));
}

}  // namespace luthier::storage
