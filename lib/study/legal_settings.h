#ifndef LUTHIER_LIB_STUDY_LEGAL_SETTINGS_H_
#define LUTHIER_LIB_STUDY_LEGAL_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "lib/base/error.h"
#include "lib/study/parameter_constraints.h"
#include "lib/study/parameters.h"
#include "lib/study/search_space.h"

// Legal settings are those of a search space that keep the study's constraints (parameter_constraints.h).
namespace luthier::study {

// Adds every fault of the constraints to `violations`, with fields "constraints[2].sum.x": unknown names, sums of
// parameters that are no numbers, weights and bounds that are not finite or contradict each other, values that a
// parameter can't have, and constraints that are there twice. Whether any setting is legal is LegalShareOf's to say.
void ValidateConstraints(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints,
                         base::Violations* violations);

// The legal settings of a space: constraints compiled, so that checking a setting costs a look-up for each parameter
// that they name. Immutable; any thread.
class LegalSettings {
 public:
  // A bounded sum of scalars: at_least <= sum of weight * value <= at_most, in user units. An end that there is none of
  // is infinite.
  struct Row {
    int constraint = 0;                           // Its place in the list.
    std::vector<std::pair<int, double>> weights;  // Parameter of the space, and its weight; in order of name.
    double at_least = 0.0;
    double at_most = 0.0;
    double range = 0.0;  // Largest less smallest sum over the box of all values; above 0.
  };

  // Precondition: ValidateConstraints finds no fault.
  LegalSettings(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints);

  // Returns true if the setting keeps every constraint. `setting` is canonical for the space; parameters that no
  // constraint names need not be there. Sums may be beyond a bound by their own rounding, 1e-12 of their terms.
  bool Contains(const Parameters& setting) const { return !Broken(setting).has_value(); }
  // Returns the place of the first constraint that the setting breaks.
  std::optional<int> Broken(const Parameters& setting) const;
  // Says for people what is wrong with a setting, e.g. "width + depth is 1,030, and constraints[0] allows at most
  // 1,024"; "" for a legal one.
  std::string WhyNot(const Parameters& setting) const;

  // Parameters that constraints name and those that their conditions depend on, in the space's topological order: these
  // alone decide.
  const std::vector<int>& deciding() const { return deciding_; }
  const std::vector<Row>& rows() const { return rows_; }
  // Returns the sum of a row at a setting; inactive parameters count 0, and each scalar of a vector counts.
  double SumOf(const Row& row, const Parameters& setting) const;

 private:
  struct Values {
    int parameter = 0;
    std::vector<ParameterValue> values;  // Canonical; empty: the range below.
    double at_least = 0.0, at_most = 0.0;
  };
  struct Combination {
    int constraint = 0;
    std::vector<Values> all;
  };

  const std::string& NameOf(int parameter) const { return names_[static_cast<size_t>(parameter)]; }
  // Returns by how much the sum is beyond a bound of the row; 0 or less: not beyond rounding.
  double Beyond(const Row& row, const Parameters& setting) const;
  bool Has(const Combination& combination, const Parameters& setting) const;

  std::vector<std::string> names_;
  std::vector<Row> rows_;
  std::vector<Combination> combinations_;
  std::vector<int> deciding_;
};

// Result of LegalShareOf: the number of random settings that were drawn, and that of the legal ones.
struct LegalShare {
  int64_t legal = 0;
  int64_t draws = 0;
  double share() const { return static_cast<double>(legal) / static_cast<double>(draws); }
};

inline constexpr int64_t kLegalDraws = 10'000;
// Number of legal ones among these draws that a study needs: with fewer, random search would hardly find any.
inline constexpr int64_t kFewestLegal = 10;

// Draws kLegalDraws settings as random search would without constraints, from a stream of its own, so that the result
// is a function of space and constraints alone. Precondition: ValidateConstraints finds no fault.
LegalShare LegalShareOf(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_LEGAL_SETTINGS_H_
