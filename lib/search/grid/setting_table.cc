#include "lib/search/grid/setting_table.h"

#include <algorithm>

#include "lib/base/hash.h"

namespace luthier::search {

using Eigen::MatrixXd;

std::optional<SettingTable> SettingTable::Create(const study::Encoding& encoding, int64_t max_settings) {
  constexpr int64_t kMaxNumbers = 4'000'000;
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    if (!encoding.Levels(c).has_value()) return std::nullopt;
  }
  Grid grid(encoding, 2);  // There is no continuous coordinate, so the 2 is not used.
  const std::optional<int64_t> size = grid.size();
  if (!size || *size > max_settings || *size * std::max(1, encoding.model_dim()) > kMaxNumbers) return std::nullopt;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < *size; ++i) {
    if (encoding.legal() == nullptr || encoding.IsLegal(grid.Point(i))) places.push_back(i);
  }
  if (places.empty()) return std::nullopt;
  MatrixXd points(static_cast<Eigen::Index>(places.size()), encoding.model_dim());
  SettingTable table(std::move(grid), std::move(places), std::move(points));
  for (int i = 0; i < table.size(); ++i) {
    const study::Parameters setting = table.Setting(i);
    table.points_.row(i) = encoding.ToModel(setting);
    table.rows_by_hash_.emplace_back(base::Hash64(study::FormatParameters(setting)), i);
  }
  std::sort(table.rows_by_hash_.begin(), table.rows_by_hash_.end());
  return table;
}

int SettingTable::Find(const study::Parameters& setting) const {
  const std::pair<uint64_t, int> key(base::Hash64(study::FormatParameters(setting)), -1);
  for (auto row = std::lower_bound(rows_by_hash_.begin(), rows_by_hash_.end(), key);
       row != rows_by_hash_.end() && row->first == key.first; ++row) {
    if (Setting(row->second) == setting) return row->second;
  }
  return -1;
}

}  // namespace luthier::search
