#ifndef LUTHIER_LIB_STUDY_LEGAL_SETTINGS_H_
#define LUTHIER_LIB_STUDY_LEGAL_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <map>
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
// that they name, and one multiplication for each of their terms. Immutable; any thread.
//
// Values are handed over as numbers, one for each of deciding(): a number itself, of a vector the sum of its scalars,
// of labels the place of the label, of a switch 0 or 1, and NaN for a parameter that the setting does not have.
class LegalSettings {
 public:
  // A bounded sum: at_least <= sum of weight * value <= at_most, in user units. An end that there is none of is
  // infinite.
  struct Row {
    int constraint = 0;                           // Its place in the list.
    std::vector<std::pair<int, double>> weights;  // Place in deciding(), and weight; in order of name.
    double at_least = 0.0;
    double at_most = 0.0;
    double range = 0.0;  // Largest less smallest sum over the box of all values; above 0.
  };

  // Precondition: ValidateConstraints finds no fault.
  LegalSettings(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints);

  // Returns true if the setting keeps every constraint. `setting` is canonical for the space; parameters that no
  // constraint names need not be there. Sums may be beyond a bound by their own rounding, 1e-12 of their terms.
  bool Contains(const Parameters& setting) const { return !Broken(ValuesOf(setting)).has_value(); }
  // Says for people what is wrong with a setting, e.g. "width + depth is 1,030, and constraints[0] allows at most
  // 1,024"; "" for a legal one.
  std::string WhyNot(const Parameters& setting) const;

  // Parameters that constraints name and those that their conditions depend on, in the space's topological order: these
  // alone decide.
  const std::vector<int>& deciding() const { return deciding_; }
  const std::vector<Row>& rows() const { return rows_; }
  std::vector<double> ValuesOf(const Parameters& setting) const;
  // Returns true if the parameter at place `k` of deciding() exists, given the values before it.
  bool Exists(size_t k, const std::vector<double>& values) const;
  // Returns the sum of a row; parameters that a setting does not have count 0.
  double SumOf(const Row& row, const std::vector<double>& values) const;
  // Returns the place of the first constraint that is broken.
  std::optional<int> Broken(const std::vector<double>& values) const;

 private:
  // Facts about a parameter of deciding().
  struct Decider {
    std::string name;
    std::map<std::string, double, std::less<>> places;  // Numbers of its labels.
    int parent = -1;                                    // Place in deciding().
    std::vector<double> exists_at;                      // Values of the parent, ascending.
  };
  struct Values {
    int place = 0;               // In deciding().
    std::vector<double> values;  // Ascending; empty: the range below.
    double at_least = 0.0, at_most = 0.0;
  };
  struct Combination {
    int constraint = 0;
    std::vector<Values> all;
  };

  void AddDeciders(const SearchSpace& space, const std::vector<bool>& decides);
  static double NumberOf(const Decider& decider, const ParameterValue& value);
  // Returns true if the sum is beyond a bound of the row by more than rounding.
  bool IsBeyond(const Row& row, const std::vector<double>& values) const;
  static bool Has(const Combination& combination, const std::vector<double>& values);

  std::vector<int> deciding_;
  std::vector<Decider> deciders_;  // In that order.
  std::vector<Row> rows_;
  std::vector<Combination> combinations_;
};

// Result of LegalShareOf: the number of random settings that were drawn, and that of the legal ones.
struct LegalShare {
  int64_t legal = 0;
  int64_t draws = 0;
  double share() const { return static_cast<double>(legal) / static_cast<double>(draws); }
};

// Most scalars of all parameters together that constraints may name, so that a space is judged within a second.
inline constexpr int kMaxDecidingScalars = 2000;

inline constexpr int64_t kLegalDraws = 10'000;
// Number of legal ones among these draws that a study needs: with fewer, random search would hardly find any.
inline constexpr int64_t kFewestLegal = 10;

// Draws kLegalDraws settings as random search would without constraints, from a stream of its own, so that the result
// is a function of space and constraints alone. Precondition: ValidateConstraints finds no fault.
LegalShare LegalShareOf(const SearchSpace& space, const std::vector<ParameterConstraint>& constraints);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_LEGAL_SETTINGS_H_
