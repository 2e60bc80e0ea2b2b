#ifndef LUTHIER_CLIENT_PLOT_TRIAL_COLUMNS_H_
#define LUTHIER_CLIENT_PLOT_TRIAL_COLUMNS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "luthier/v1/study_service.pb.h"

namespace luthier::plot {

// The table of a study's trials, as GetTrialTable sends it page by page, joined. Columns have the names of
// v1::TrialColumn.
class TrialColumns {
 public:
  // Adds the rows of a page behind those before. INTERNAL for a column that is not as long as the page says.
  absl::Status Add(const v1::GetTrialTableResponse& page);

  std::size_t rows() const { return rows_; }
  bool Has(const std::string& column) const { return numbers_.count(column) + words_.count(column) > 0; }
  // Returns a value for each row, NaN where there is none. An unknown column, and one of texts, has none anywhere.
  const std::vector<double>& Numbers(const std::string& column) const;
  // Returns a text for each row, "" where there is none. An unknown column, and one of numbers, has none anywhere.
  const std::string& Word(const std::string& column, std::size_t row) const;
  // Keeps the last `count` rows only.
  void KeepLast(std::size_t count);

 private:
  struct Words {
    std::vector<std::string> texts;      // Different ones; the first is "".
    std::vector<std::uint32_t> indexes;  // Places in `texts`, one for each row.
  };

  std::size_t rows_ = 0;
  std::map<std::string, std::vector<double>> numbers_;
  std::map<std::string, Words> words_;
  std::vector<double> none_;  // NaN for each row.
};

}  // namespace luthier::plot

#endif  // LUTHIER_CLIENT_PLOT_TRIAL_COLUMNS_H_
