#ifndef LUTHIER_LIB_SUGGEST_HARMONICA_REPORT_H_
#define LUTHIER_LIB_SUGGEST_HARMONICA_REPORT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// What Harmonica's stages learnt, for people. Weights and values in units of the metric.
namespace luthier::suggest {

// One bit of a parameter; -1 where a switch is on, in the upper half of a range, ….
struct HarmonicaFactor {
  std::string parameter;
  int bit = 0;       // From 1, most significant first; 0: the parameter is this one bit.
  std::string name;  // spectral::BitEncoding::BitName.
};

struct HarmonicaTerm {
  std::vector<HarmonicaFactor> factors;
  double weight = 0.0;
  int better_sign = 0;          // Of the product: -1 or +1.
  std::string better_values;    // Of a term of one factor: what of the parameter that is. Else empty.
  double variance_share = 0.0;  // weight^2 / Var.
  std::optional<double> bootstrap_frequency;
};

struct HarmonicaRestriction {
  std::map<std::string, std::string> values;  // Parameter -> what is left of it.
  double value = 0.0;                         // Of the stage's polynomial.
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

// Of all that is in the history. Empty for other algorithms and for studies without stages. With `resamples` > 0 terms
// have bootstrap frequencies; of large samples fewer are taken, or none, so that it stays within some seconds.
HarmonicaReport ReportHarmonica(const study::StudySpec& spec, const study::History& history, int resamples);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HARMONICA_REPORT_H_
