#include "lib/notation/synth_uri.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/notation/number.h"

namespace luthier::notation {
namespace {

constexpr char kPrefix[] = "synth:";
constexpr size_t kPrefixLength = sizeof(kPrefix) - 1;

}  // namespace

absl::Status SynthError(const std::string& uri, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(base::Quote(uri), ": ", what));
}

bool IsSynth(absl::string_view uri) {
  return absl::StartsWith(uri, kPrefix);
}

absl::StatusOr<std::string> SynthKind(const std::string& uri, const std::vector<std::string>& kinds,
                                      absl::string_view example) {
  if (!IsSynth(uri)) return SynthError(uri, "does not begin with synth:");
  const std::string kind = uri.substr(kPrefixLength, std::min(uri.find('?'), uri.size()) - kPrefixLength);
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    return SynthError(uri, absl::StrCat("there is no generator ", base::Quote(kind), " here",
                                        base::DidYouMean(kind, kinds), "; write ", example));
  }
  return kind;
}

absl::Status SynthKeys::Parse(const std::string& uri) const {
  const size_t question = uri.find('?');
  const absl::string_view query =
      question == std::string::npos ? absl::string_view() : absl::string_view(uri).substr(question + 1);
  std::set<std::string> seen;
  for (const absl::string_view item : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = item.find('=');
    if (equals == absl::string_view::npos) {
      return SynthError(uri, absl::StrCat(base::Quote(item), " is not key=value"));
    }
    const std::string name(item.substr(0, equals));
    const absl::string_view text = item.substr(equals + 1);
    if (!seen.insert(name).second) return SynthError(uri, absl::StrCat(base::Quote(name), " is there twice"));
    const auto key = std::find_if(keys_.begin(), keys_.end(), [&](const Key& k) { return k.name == name; });
    if (key == keys_.end()) {
      std::vector<std::string> names;
      for (const Key& k : keys_) names.push_back(k.name);
      return SynthError(uri, absl::StrCat("there is no key ", base::Quote(name), base::DidYouMean(name, names),
                                          "; keys are ", absl::StrJoin(names, ", ")));
    }
    if (const auto* range = std::get_if<Range>(&key->value)) {
      int64_t value = 0;
      if (!absl::SimpleAtoi(text, &value) || value < range->low || value > range->high) {
        return SynthError(uri, absl::StrCat(name, " = ", base::Quote(text), " is not a whole number from ", range->low,
                                            " to ", range->high));
      }
      *range->out = value;
    } else if (const auto* real = std::get_if<RealRange>(&key->value)) {
      double value = 0.0;
      if (!ParseNumber(text, &value) || !(value >= real->low) || !(value <= real->high)) {
        return SynthError(
            uri, absl::StrCat(name, " = ", base::Quote(text), " is not a number from ", real->low, " to ", real->high));
      }
      *real->out = value;
    } else if (!absl::SimpleAtoi(text, std::get<uint64_t*>(key->value))) {
      return SynthError(uri, absl::StrCat("seed = ", base::Quote(text), " is not a whole number of 64 bits"));
    }
  }
  return absl::OkStatus();
}

}  // namespace luthier::notation
