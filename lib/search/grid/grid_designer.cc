#include "lib/search/grid/grid_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::search {
namespace {

constexpr int32_t kMaxLevels = 1'000'000;

}  // namespace

absl::Status ValidateGrid(const study::StudySpec& spec, const study::GridOptions& options) {
  constexpr char kField[] = "algorithm.grid.levels";
  if (options.levels < 2 || options.levels > kMaxLevels) {
    return base::BadField(kField, absl::StrCat(options.levels, " is not between 2 and ", kMaxLevels));
  }
  const std::optional<int64_t> size = Grid(study::Encoding(spec.space), options.levels).size();
  if (size && *size <= kMaxGridPoints) return absl::OkStatus();
  // The cause is nearly always one wide parameter or the number of parameters, so the message names the widest.
  int64_t widest = 0;
  std::string name;
  for (int i = 0; i < spec.space.size(); ++i) {
    const study::ParameterSpec& parameter = spec.space.parameters()[i];
    // A vector has a power of its element's points; numbers beyond int64 count as the largest int64.
    const double power = std::pow(static_cast<double>(spec.space.Levels(i).value_or(options.levels)),
                                  spec.space.IsConstant(i) ? 1 : parameter.width());
    const int64_t points = power < 9e18 ? static_cast<int64_t>(power) : std::numeric_limits<int64_t>::max();
    if (points <= widest) continue;
    widest = points;
    name = parameter.name;
  }
  const bool beyond = widest == std::numeric_limits<int64_t>::max();
  return base::BadField(
      kField, absl::StrCat("the grid has ", size ? absl::StrCat(*size) : "more than 2^63", " points; at most ",
                           kMaxGridPoints, " are allowed. ", base::Quote(name), " alone has ",
                           beyond ? std::string("more than 2^63") : absl::StrCat(widest),
                           ": take fewer levels, give parameters a step, or use another algorithm"));
}

GridDesigner::GridDesigner(const study::StudySpec& spec, const study::GridOptions& options)
    : encoding_(spec.space, spec.constraints),
      grid_(encoding_, options.levels, options.centres),
      size_(grid_.size().value_or(0)),
      shuffle_(options.shuffle),
      permutation_(std::max<int64_t>(size_, 1), spec.seed) {
  LUTHIER_CHECK(size_ >= 1);
}

absl::StatusOr<Suggestion> GridDesigner::Suggest(const study::History&, uint64_t ask_index,
                                                 const base::StopToken& stop) {
  const auto size = static_cast<uint64_t>(size_);
  std::optional<uint64_t> place;
  if (encoding_.legal() != nullptr) {
    const auto is_legal = [&](uint64_t i) { return encoding_.IsLegal(grid_.Point(IndexAt(i))); };
    LUTHIER_ASSIGN_OR_RETURN(place, walk_.Find(ask_index, size, is_legal, stop));
  } else if (ask_index < size) {
    place = ask_index;
  }
  if (!place) {
    return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                           encoding_.legal() != nullptr
                               ? absl::StrCat("all legal points of the grid of ", size_, " have been suggested")
                               : absl::StrCat("all ", size_, " points of the grid have been suggested"));
  }
  const int64_t index = IndexAt(*place);
  Suggestion suggestion;
  suggestion.parameters = grid_.Point(index);
  suggestion.origin = "grid";
  suggestion.details = {{"grid_index", static_cast<double>(index)}, {"grid_size", static_cast<double>(size_)}};
  return suggestion;
}

}  // namespace luthier::search
