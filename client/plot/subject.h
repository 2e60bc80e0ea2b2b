#ifndef LUTHIER_CLIENT_PLOT_SUBJECT_H_
#define LUTHIER_CLIENT_PLOT_SUBJECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/plot/figure.h"
#include "client/plot/trial_columns.h"
#include "luthier/v1/study.pb.h"

// Figures are made of a study with its trials, whose values and parameters become places on axes.
namespace luthier::plot {

// A study and the trials that are looked at.
struct Subject {
  std::string id;
  v1::Study study;
  TrialColumns trials;
  std::string metric;  // Name of the metric that is looked at.
  // Seconds since the epoch at which the trials were read, which is where those that run end; absent: where others do.
  std::optional<double> now = std::nullopt;

  // Returns what the study says of the metric; nullptr: it is none of the study's metrics.
  const v1::MetricSpec* spec() const;
  // Returns whether the metric is one of the study's objectives, so that a value of it can be the best one. Of other
  // metrics the smallest value is told.
  bool is_objective() const { return spec() != nullptr && spec()->goal() != v1::GOAL_UNSPECIFIED; }
  bool maximize() const { return spec() != nullptr && spec()->goal() == v1::MAXIMIZE; }
  // Returns the values of the metric, one for each trial.
  const std::vector<double>& values() const { return trials.Numbers("metrics." + metric); }
  // Returns false for a trial that is known to have a metric beyond a bound; needs the column "feasible".
  bool feasible(std::size_t row) const { return trials.Word("feasible", row) != "false"; }
  // Returns the row of the best feasible COMPLETE trial with the metric; nullopt: there is none.
  std::optional<std::size_t> best() const;
  // Returns the axis of the metric for the feasible trials' values and `more`, and as far as infeasible ones are
  // better.
  Axis ValueAxis(const std::vector<double>& more = {}) const;
  // Returns in words which trial is the best one, or why none is. A clause without a full stop.
  std::string BestText() const;
};

// Returns a text of strangers as it may stand in a picture: at most `most` characters, none of which hides or controls.
std::string Shown(const std::string& text, std::size_t most = 60);

// Returns the text of a tick with at most `most` characters: of a longer one the beginning and the end, by which labels
// differ that begin alike.
std::string Shortened(const std::string& text, std::size_t most);
// Returns texts like that, in order; those that are longer without the beginning that all of them share.
std::vector<std::string> Distinct(const std::vector<std::string>& texts, std::size_t most);

// Returns the axis of a metric for values in which most trials are seen well, and the best one always: the worse half
// may reach three times as far from the best value as the better three quarters do; what is worse is outside. Values
// above 0 that are to be small, and span hundreds, are shown by their logarithm.
Axis MetricAxis(const std::string& label, const std::vector<double>& values, bool maximize);

// Returns true if `value` is worse than all that the axis shows.
bool IsOutside(const Axis& axis, double value, bool maximize);

// Gives the axis ends, those of the values where it has none.
void CloseAxis(const std::vector<double>& values, Axis* axis);

// Returns where the marks of trials without a place are drawn: just within the worse end of an axis that has ends.
double EdgeOf(const Axis& axis, bool maximize);

// A parameter of a study as a coordinate. Logit scales and labels become plain numbers.
class ParameterAxis {
 public:
  // Returns the axes of `names` (parameters, or columns of a vector's numbers as "v.max"), or, if there are none, of
  // the first `most` parameters that are no constants. INVALID_ARGUMENT for a name that the study lacks, and for
  // one that is there twice.
  static absl::StatusOr<std::vector<ParameterAxis>> Of(const Subject& subject, const std::vector<std::string>& names,
                                                       std::size_t most);

  const std::string& name() const { return name_; }  // Name of the parameter.
  const Axis& axis() const { return axis_; }
  bool is_vector() const { return vector_; }
  // Returns the coordinate of a trial's value; NaN: the trial has none.
  double At(const TrialColumns& trials, std::size_t row) const;
  // Returns where a coordinate is between the ends of the axis, 0 to 1.
  double Share(double coordinate) const;
  // Returns the coordinate at a share of the way between the ends.
  double CoordinateAt(double share) const;
  // Returns the value that a coordinate means; a whole number or a label is that nearest to it.
  google::protobuf::Value ValueAt(double coordinate) const;
  // Returns the number of different values, if they are few enough to be told apart.
  std::optional<int> levels() const;
  // Returns d(share) / d(value) at a coordinate, by which a gradient becomes a slope in the picture.
  double SharePerUnit(double coordinate) const;

 private:
  enum class Kind { kFloat, kLogit, kInt, kLabels, kBool };

  ParameterAxis() = default;
  static ParameterAxis OfSpec(const v1::ParameterSpec& spec, const std::string& part);

  std::string name_, column_;
  Kind kind_ = Kind::kFloat;
  bool vector_ = false;
  bool constant_ = false;  // The axis reaches beyond the one value.
  double first_ = 0.0;     // The least value.
  double step_ = 0.0;      // Between values; 0: every value is legal.
  std::vector<std::string> labels_;
  Axis axis_;
};

}  // namespace luthier::plot

#endif  // LUTHIER_CLIENT_PLOT_SUBJECT_H_
