#ifndef LUTHIER_LIB_STUDY_SPEC_CHANGE_H_
#define LUTHIER_LIB_STUDY_SPEC_CHANGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/study/study_spec.h"

// Changes of a study after its creation.
namespace luthier::study {

// Fields to be changed; absent ones stay.
struct SpecChange {
  std::optional<std::string> display_name;
  std::optional<std::string> description;
  std::optional<std::map<std::string, std::string>> labels;
  std::optional<int64_t> max_trials;
  std::optional<int64_t> max_parallel;
  std::optional<int64_t> patience;
  std::optional<std::optional<double>> target_value;      // A present, empty value removes the target.
  std::optional<std::optional<absl::Duration>> max_wall;  // A present, empty value removes the limit.
  std::optional<std::optional<bool>> until_answered;      // A present, empty value stands for the default.
  std::optional<double> weight;
  // Parameters by name, each with a range that is as wide as before or wider, or with more labels behind the old ones.
  std::optional<std::vector<ParameterSpec>> parameters;
  std::optional<CommandObjective> command;
  friend bool operator==(const SpecChange&, const SpecChange&) = default;
};

// Returns `spec` changed. Returns INVALID_ARGUMENT with every violation: ranges that are narrower, parameters that
// there are not, other kinds; a wider range where the algorithm's settings are fixed from the start; a command where
// the objective is none. ValidateSpec says what is wrong in the new spec by itself.
absl::StatusOr<StudySpec> ChangeSpec(const StudySpec& spec, const SpecChange& change);

// Returns false if designers may suggest otherwise for `b` than for `a`.
bool SameForDesigners(const StudySpec& a, const StudySpec& b);
// Returns true if they may at most because of the budget's max_trials.
bool SameButMaxTrials(const StudySpec& a, const StudySpec& b);

// Returns the change of `after` that restores the fields of `before` that designers do not use; std::nullopt if none of
// these differs.
std::optional<SpecChange> WayBack(const StudySpec& before, const StudySpec& after);

// Returns the changes for people: "max_trials 20 -> 40, description"; "" without any.
std::string DescribeChange(const StudySpec& before, const StudySpec& after);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_SPEC_CHANGE_H_
