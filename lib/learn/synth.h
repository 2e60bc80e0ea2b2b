#ifndef LUTHIER_LIB_LEARN_SYNTH_H_
#define LUTHIER_LIB_LEARN_SYNTH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lib/learn/dataset.h"

namespace luthier::learn {

// Generated data, so that tests, examples and benchmarks need no download. A function of the spec alone, on every
// machine up to rounding in the last bit of exp.
//
// Rows: each entry is 0 with probability 1 - density, else standard normal / sqrt(density). Scores of class k: signal *
// w_k . x / sqrt(informative), w_k standard normal in the first `informative` columns and 0 elsewhere. The label is
// drawn from the softmax of the scores, then replaced by a uniformly drawn class with probability `noise`.
struct SynthSpec {
  int64_t rows = 500;   // 4 … 10^7, at least 2 a class.
  int32_t cols = 20;    // 1 … 10^6; rows * cols * density <= 5*10^8.
  int32_t classes = 2;  // 2 … 1000.
  uint64_t seed = 1;
  double noise = 0.0;       // [0, 1].
  double density = 1.0;     // (0, 1].
  int32_t informative = 0;  // 1 … cols; 0: half of them, at least one.
  double signal = 3.0;      // [0, 100]: 0 makes labels independent of features.
};

// `synth:logistic?rows=500&cols=20&classes=2&seed=1&noise=0.1`: all keys optional, fields as above. INVALID_ARGUMENT
// for anything else, with the closest legal key.
absl::StatusOr<SynthSpec> ParseSynth(const std::string& uri);

// `spec` must come from ParseSynth or keep its ranges. Every class has at least two rows.
absl::StatusOr<Dataset> Synthesize(const SynthSpec& spec);

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_SYNTH_H_
