#ifndef LUTHIER_LIB_SEARCH_GRID_GRID_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_GRID_GRID_DESIGNER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "lib/search/designer.h"
#include "lib/search/grid/grid.h"
#include "lib/search/legal/legal_walk.h"
#include "lib/study/encoding.h"

namespace luthier::search {

inline constexpr int64_t kMaxGridPoints = 10'000'000;

// Returns INVALID_ARGUMENT with field "algorithm.grid.levels" if the grid is too large or the option is out of range.
absl::Status ValidateGrid(const study::StudySpec& spec, const study::GridOptions& options);

// Grid search: ask i is point i of the grid, in shuffled order by default. From ask size() on, Suggest returns
// OUT_OF_RANGE, reason SPACE_EXHAUSTED. Origin "grid"; details: grid_index, grid_size. With constraints on parameters
// illegal points are skipped; they count in grid_size and have an index all the same.
class GridDesigner final : public Designer {
 public:
  GridDesigner(const study::StudySpec& spec, const study::GridOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // Returns the index of the point at a place of the order in which points are visited.
  int64_t IndexAt(uint64_t place) const {
    return shuffle_ ? permutation_(static_cast<int64_t>(place)) : static_cast<int64_t>(place);
  }

  const study::Encoding encoding_;
  const Grid grid_;
  const int64_t size_;
  const bool shuffle_;
  const Shuffle permutation_;
  LegalWalk walk_;  // Cache.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_GRID_GRID_DESIGNER_H_
