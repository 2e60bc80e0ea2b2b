#ifndef LUTHIER_LIB_SEARCH_GRID_SETTING_TABLE_H_
#define LUTHIER_LIB_SEARCH_GRID_SETTING_TABLE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "lib/search/grid/grid.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// All legal settings of a small finite space with their model points, for exhaustive search. Immutable.
class SettingTable {
 public:
  // Returns std::nullopt if the space has a continuous parameter or more than `max_settings` settings, legal or not, if
  // the table would hold more than 4e6 numbers, or if no setting is legal.
  static std::optional<SettingTable> Create(const study::Encoding& encoding, int64_t max_settings = 20'000);

  int size() const { return static_cast<int>(points_.rows()); }
  const Eigen::MatrixXd& points() const { return points_; }  // size() x model_dim.
  study::Parameters Setting(int i) const { return grid_.Point(places_[static_cast<size_t>(i)]); }
  // Returns the row of a canonical setting, or -1.
  int Find(const study::Parameters& setting) const;

 private:
  SettingTable(Grid grid, std::vector<int64_t> places, Eigen::MatrixXd points)
      : grid_(std::move(grid)), places_(std::move(places)), points_(std::move(points)) {}

  Grid grid_;
  std::vector<int64_t> places_;  // Places of the rows in the grid, ascending.
  Eigen::MatrixXd points_;
  std::vector<std::pair<uint64_t, int>> rows_by_hash_;  // Sorted.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_GRID_SETTING_TABLE_H_
