#ifndef LUTHIER_LIB_LEARN_SYNTH_H_
#define LUTHIER_LIB_LEARN_SYNTH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/learn/dataset.h"

namespace luthier::learn {

// Generated rows, so that tests, examples and benchmarks need no download; generated sequences and letters are in
// lib/crf/synth_chains.h. A function of the URI alone, on every machine up to rounding in the last bit of exp.
//
//   synth:logistic?rows=500&cols=20&classes=2&seed=1&noise=0.1      SynthSpec
//   synth:images?rows=500&side=28&classes=10&seed=1                 ImageSpec
//
// All keys are optional. INVALID_ARGUMENT for anything else, with the closest legal kind or key; CANCELLED when
// stopped, here and below.
absl::Status CheckSynthRows(const std::string& uri);
absl::StatusOr<Dataset> SynthesizeRows(const std::string& uri, const base::StopToken& stop = {});

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

// Parses a URI synth:logistic; the fields are as above.
absl::StatusOr<SynthSpec> ParseSynth(const std::string& uri);

// `spec` must come from ParseSynth or keep its ranges. Every class has at least two rows.
absl::StatusOr<Dataset> Synthesize(const SynthSpec& spec, const base::StopToken& stop = {});

// Pictures of characters: each class has one, a few pen strokes; a row shows it, moved by up to two pixels, and a share
// `noise` of its pixels drawn anew from all 256 values. Written as IDX files and read by their reader, so rows are as
// those of MNIST: pixels / 255, zeros left out, classes "0", "1", ...
struct ImageSpec {
  int64_t rows = 500;    // 4 … 10^6, at least 2 a class.
  int64_t side = 28;     // 4 … 256: pixels of a row and of a column; rows * side * side <= 10^9.
  int64_t classes = 10;  // 2 … 256.
  double noise = 0.02;   // [0, 1].
  uint64_t seed = 1;
};
absl::StatusOr<ImageSpec> ParseSynthImages(const std::string& uri);
// The bytes of the two files.
struct IdxFiles {
  std::string images, labels;
};
absl::StatusOr<IdxFiles> SynthesizeImages(const ImageSpec& spec, const base::StopToken& stop = {});

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_SYNTH_H_
