#ifndef LUTHIER_LIB_SEARCH_HARMONICA_REPORT_H_
#define LUTHIER_LIB_SEARCH_HARMONICA_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// Reports for people what Harmonica's stages learnt. Weights and values are in units of the metric.
namespace luthier::search {

// One bit of a parameter. It is -1 if a switch is on, if the value is in the upper half of a range, and so on.
struct HarmonicaFactor {
  std::string parameter;
  int bit = 0;       // From 1, most significant first; 0: the parameter is this one bit.
  std::string name;  // spectral::BitEncoding::BitName.
};

struct HarmonicaTerm {
  std::vector<HarmonicaFactor> factors;
  double weight = 0.0;
  int better_sign = 0;          // Sign of the product that improves the metric: -1 or +1.
  std::string better_values;    // Values of that sign, if there is one factor; else empty.
  double variance_share = 0.0;  // weight^2 / Var.
  std::optional<double> bootstrap_frequency;
};

struct HarmonicaRestriction {
  std::map<std::string, std::string> values;  // Parameter -> description of its remaining values.
  double value = 0.0;                         // Value of the stage's polynomial.
};

struct HarmonicaStageReport {
  double intercept = 0.0;
  std::vector<HarmonicaTerm> terms;  // By falling |weight|.
  bool believed = false;
  std::vector<HarmonicaRestriction> restrictions;
  int64_t samples = 0;
  int64_t failed = 0;
  double r2 = 0.0;
  double cv_r2 = 0.0;
  std::vector<std::string> warnings;
};

struct HarmonicaReport {
  std::vector<HarmonicaStageReport> stages;  // The closed ones.
  std::vector<std::string> never_selected;   // Parameters in no term of a believed stage; in order of the space.
};

inline constexpr int kHarmonicaResamples = 50;

// Reports on the closed stages in `history`. The report is empty for other algorithms and for studies without stages.
// With `resamples` > 0 terms have bootstrap frequencies. Large samples get fewer resamples, or none, so that the report
// takes no more than some seconds.
HarmonicaReport ReportHarmonica(const study::StudySpec& spec, const study::History& history, int resamples);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HARMONICA_REPORT_H_
