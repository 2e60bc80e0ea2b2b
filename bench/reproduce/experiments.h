#ifndef LUTHIER_BENCH_REPRODUCE_EXPERIMENTS_H_
#define LUTHIER_BENCH_REPRODUCE_EXPERIMENTS_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/reproduce/textbook_designer.h"

// Which runs each claim of the thesis needs, as data. report.py judges the claims from their results.
namespace luthier::reproduce {

enum class Slopes {
  kNone,
  kFull,         // Every result comes with its gradient.
  kDirectional,  // Every result comes with the slope along the direction that was asked for.
};

// A search algorithm with everything set.
struct Setting {
  std::string name;       // Letters, digits and dashes; ends with -old where hyperparameters are drawn by MCMC.
  std::string algorithm;  // As wire::ParseAlgorithm reads it, once {L} is replaced by the problem's Lipschitz constant.
  Slopes slopes = Slopes::kNone;
  std::optional<TextbookOptions> textbook;  // Instead of `algorithm`.
};

// Whether it samples hyperparameters, which takes ten times as long.
bool IsSlow(const Setting& setting);

// Setting by setting, problem by problem. Together, those of a claim are all that it is judged by.
struct Experiment {
  std::string claim;  // CS1 …, Harmless, Bounds.
  std::vector<std::string> settings;
  std::vector<std::string> problems;
  int evaluations = 100;
};

// In order of name; and the experiments, those that matter most first.
const std::vector<Setting>& Settings();
const std::vector<Experiment>& Experiments();

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_EXPERIMENTS_H_
