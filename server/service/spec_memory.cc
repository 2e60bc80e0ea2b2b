#include "server/service/spec_memory.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::service {
namespace {

constexpr int64_t kMessages = 2, kCopies = 4;
// Bytes in all messages and copies: of a text, besides characters beyond the 15 that are within it; of a value; of an
// entry of a map; of a parameter. Measured with protobuf 3.21 and libstdc++ 12.
constexpr int64_t kText = kMessages * 64 + kCopies * 32;
constexpr int64_t kValue = kMessages * 64 + kCopies * 40;
constexpr int64_t kEntry = kMessages * 160 + kCopies * 120;
constexpr int64_t kParameter = kMessages * 320 + kCopies * 480;

int64_t BytesOf(const std::string& text) {
  constexpr size_t kWithin = 15;
  const auto characters = static_cast<int64_t>(text.size() <= kWithin ? 0 : text.size() + 17);
  return kText + (kMessages + kCopies) * characters;
}

int64_t BytesOf(const google::protobuf::Value& value) {
  if (value.has_string_value()) return kValue + BytesOf(value.string_value());
  if (!value.has_list_value()) return kValue;
  int64_t bytes = kValue;
  for (const google::protobuf::Value& element : value.list_value().values()) bytes += BytesOf(element);
  return bytes;
}

template <typename Texts>
int64_t BytesOfTexts(const Texts& texts) {
  int64_t bytes = 0;
  for (const std::string& text : texts) bytes += BytesOf(text);
  return bytes;
}

template <typename Map>
int64_t BytesOfMap(const Map& map) {
  int64_t bytes = 0;
  for (const auto& [key, value] : map) bytes += kEntry + BytesOf(key) + BytesOf(value);
  return bytes;
}

int64_t BytesOf(const v1::ParameterSpec& p) {
  int64_t bytes = kParameter + BytesOf(p.name()) + BytesOf(p.display_name());
  bytes += BytesOfTexts(p.categorical().values()) + BytesOfTexts(p.ordinal().values());
  if (p.has_default_value()) bytes += BytesOf(p.default_value());
  // Conditions are short except for their values.
  for (const google::protobuf::Value& value : p.condition().values()) bytes += BytesOf(value);
  return bytes;
}

int64_t BytesOf(const v1::Objective& objective) {
  const v1::Objective::Command& command = objective.command();
  return BytesOfMap(objective.builtin().options()) + BytesOfTexts(command.argv()) + BytesOfMap(command.environment()) +
         BytesOfMap(command.stdout_patterns());
}

std::string Mebibytes(int64_t bytes) {
  return absl::StrCat((bytes + (int64_t{1} << 19)) >> 20, " MiB");
}

}  // namespace

absl::Status CheckSpecSize(const v1::StudySpec& spec) {
  if (spec.ByteSizeLong() > kMostSpecBytes) {
    return base::BadField("", absl::StrCat("has ", spec.ByteSizeLong(), " bytes; at most ", kMostSpecBytes,
                                           " are allowed: use fewer or shorter labels"));
  }
  int64_t space = 0, largest = 0;
  int place = 0;
  for (int i = 0; i < spec.space_size(); ++i) {
    const int64_t bytes = BytesOf(spec.space(i));
    space += bytes;
    if (bytes <= largest) continue;
    largest = bytes;
    place = i;
  }
  const int64_t objective = BytesOf(spec.objective());
  const int64_t labels = BytesOfMap(spec.labels());
  const int64_t all = space + objective + labels;
  if (all <= kMostSpecMemory) return absl::OkStatus();
  std::string most;
  if (space >= objective && space >= labels) {
    const v1::ParameterSpec& p = spec.space(place);
    const int values = p.categorical().values_size() + p.ordinal().values_size();
    most = absl::StrCat("space, with ", spec.space_size(), " parameters, of which space[", place, "] (",
                        base::Quote(p.name()), values > 0 ? absl::StrCat(", ", values, " labels") : "",
                        ") is the largest, takes ", Mebibytes(space), " of it; use fewer or shorter labels");
  } else if (objective >= labels) {
    most = absl::StrCat("objective takes ", Mebibytes(objective), " of it; use fewer or shorter arguments and options");
  } else {
    most = absl::StrCat("labels take ", Mebibytes(labels), " of it; use fewer or shorter ones");
  }
  base::ErrorDetail detail;
  detail.reason = base::reason::kBadField;
  const std::string what = absl::StrCat("would take ", Mebibytes(all), " of memory, more than the ",
                                        Mebibytes(kMostSpecMemory), " that a study may: ", most);
  detail.violations.push_back({"", what});
  detail.metadata = {{"limit", "spec_memory"}, {"value", absl::StrCat(kMostSpecMemory)}};
  return base::MakeError(absl::StatusCode::kInvalidArgument, what, std::move(detail));
}

}  // namespace luthier::service
