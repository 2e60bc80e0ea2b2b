#ifndef LUTHIER_BENCH_REPRODUCE_HARMONICA_SWITCHED_NETWORK_H_
#define LUTHIER_BENCH_REPRODUCE_HARMONICA_SWITCHED_NETWORK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "lib/data/dataset.h"
#include "lib/study/parameters.h"
#include "lib/study/search_space.h"

namespace luthier::reproduce {

inline constexpr int kDummies = 21;

// A small neural network for two classes whose training is governed by 39 switches (preparation of the features,
// architecture, initialization, optimizer, regularization), as the residual network of the source was by 39 options.
// With 21 more that do nothing: 60.
class SwitchedNetwork {
 public:
  static constexpr int kEpochs = 9;

  // Takes `train` rows of the data set for training, as many for validation and the rest for testing, by the seed,
  // which also names the training's randomness: errors are a function of the settings.
  SwitchedNetwork(const data::Dataset& data, int train, uint64_t seed);

  static study::SearchSpace Space();

  // Per cent of rows; NaN where training diverged. Step sizes fall, where they do, towards the last epoch.
  struct Errors {
    double validation = 0.0;
    std::optional<double> test;  // After kEpochs.
  };
  // After epochs 1 … `epochs`.
  std::vector<Errors> Train(const study::Parameters& switches, int epochs) const;

 private:
  struct Part {
    Eigen::MatrixXf x;      // Rows are examples.
    Eigen::VectorXf label;  // 0 or 1.
  };
  Part train_, validation_, test_;
  uint64_t seed_;
};

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_HARMONICA_SWITCHED_NETWORK_H_
