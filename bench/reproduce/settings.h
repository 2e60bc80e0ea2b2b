#ifndef LUTHIER_BENCH_REPRODUCE_SETTINGS_H_
#define LUTHIER_BENCH_REPRODUCE_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "bench/reproduce/textbook_designer.h"

// The search algorithms that the claims of the thesis compare, as data. Which of them run on which problems is said by
// the table of claims (claims.toml).
namespace luthier::reproduce {

enum class Slopes {
  kNone,
  kFull,         // Every result comes with its gradient.
  kDirectional,  // Every result comes with the slope along the direction that was asked for.
};

// A search algorithm with everything set.
struct Setting {
  std::string name;       // Letters, digits and dashes; ends with -mcmc where hyperparameters are drawn by MCMC.
  std::string algorithm;  // As wire::ParseAlgorithm reads it, once {L} is replaced by the problem's Lipschitz constant.
  Slopes slopes = Slopes::kNone;
  std::optional<TextbookOptions> textbook;  // Instead of `algorithm`.
};

// Returns all settings, in order of name.
const std::vector<Setting>& Settings();

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_SETTINGS_H_
