#ifndef LUTHIER_LIB_NOTATION_SYNTH_SPECS_H_
#define LUTHIER_LIB_NOTATION_SYNTH_SPECS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Meanings of the names of generated data. The data are drawn by lib/data/synth.h (rows) and lib/data/synth_chains.h
// (sequences). All keys of a name are optional. Each parser returns INVALID_ARGUMENT for anything else, with the
// closest legal kind or key.
namespace luthier::notation {

// synth:logistic?rows=500&cols=20&classes=2&seed=1&noise=0.1
//
// Rows: each entry is 0 with probability 1 - density, else standard normal / sqrt(density). Scores of class k: signal *
// w_k . x / sqrt(informative), w_k standard normal in the first `informative` columns and 0 elsewhere. The label is
// drawn from the softmax of the scores, then replaced by a uniformly drawn class with probability `noise`.
struct SynthSpec {
  int64_t rows = 500;   // 4 … 10^7, at least 2 a class.
  int32_t cols = 20;    // 1 … 10^6; rows * cols * density <= 5*10^8.
  int32_t classes = 2;  // 2 … kMaxSynthClasses.
  uint64_t seed = 1;
  double noise = 0.0;       // [0, 1].
  double density = 1.0;     // (0, 1].
  int32_t informative = 0;  // 1 … cols; 0: half of them, at least one.
  double signal = 3.0;      // [0, 100]: 0 makes labels independent of features.
};
inline constexpr int kMaxSynthClasses = 1000;

// synth:images?rows=500&side=28&classes=10&seed=1
//
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

// synth:regression?rows=500&cols=20&noise=0.5&seed=1
//
// Entries as in SynthSpec. The target is signal * sum_j w_j ((1 - waves) x_j + waves sin(3 x_j)) / sqrt(informative) +
// noise * z over the first `informative` columns, with w_j and z standard normal.
struct RegressionSpec {
  int64_t rows = 500;  // 4 … 10^7.
  int32_t cols = 20;   // 1 … 10^6; rows * cols * density <= 5*10^8.
  uint64_t seed = 1;
  double noise = 0.5;       // [0, 10^6]: standard deviation.
  double density = 1.0;     // [10^-6, 1].
  int32_t informative = 0;  // 1 … cols; 0: half of them, at least one.
  double signal = 1.0;      // [0, 10^6].
  double waves = 0.0;       // [0, 1]: share of the signal that is no linear function.
};

// synth:sequences?sentences=500&length=12&types=3&words=2000&noise=0.1&seed=1, CoNLL columns: word, tag, label; or the
// same sentences with attributes, CRFsuite's format: word and tag, and the words beside it with the value 0.5.
//
// A Markov chain walks over the labels O, B-T0, I-T0, B-T1, ...: chunks begin with probability 0.4 where there is none,
// go on with 0.5, and which type follows which is drawn once. Each type (and O) prefers words of its own: ranks follow
// Zipf's law, and each has another order of the same vocabulary, so that a word is frequent with one type and rare with
// others. The tag is the type's, or any with probability `noise`; so is the word.
struct SequenceSpec {
  int64_t sentences = 500;  // 4 … 10^6; sentences * length <= 10^8.
  int64_t length = 12;      // 1 … 1000: mean number of tokens; each sentence has half to one and a half times as many.
  int64_t types = 3;        // 1 … 100; 2 types + 1 labels.
  int64_t words = 2000;     // 2 … 10^6.
  double noise = 0.1;       // [0, 1].
  uint64_t seed = 1;
};

// synth:letters?words=300&letters=26&length=7&noise=0.05&seed=1, in the form of letters.tsv.
//
// Each letter is a character of a few pen strokes in 16 x 8 pixels, of which each is flipped with probability `noise`.
// Words walk along a Markov chain in which each letter has a few that often follow it. Folds are 0 … 9, in turn.
struct LetterSpec {
  int64_t words = 300;   // 4 … 10^6; words * length <= 10^7.
  int64_t letters = 26;  // 2 … 26.
  int64_t length = 7;    // 1 … 100: mean, as above.
  double noise = 0.05;   // [0, 0.5].
  uint64_t seed = 1;
};

// synth:matrix?rows=40&cols=30&known=400&rank=2&features=4&noise=0.3&seed=1
//
// Known entries of a matrix u v' / sqrt(rank), u and v standard normal with `rank` columns. One row each: columns `row`
// and `column` from 1, then `features`, standard normal, the first half of which (at least one) adds 1/2 of itself.
struct MatrixSpec {
  int64_t rows = 40, cols = 30;  // 2 … 10^4.
  int64_t known = 400;           // 4 … 10^7; entries may be drawn twice.
  int64_t rank = 2;              // 1 … 100.
  int64_t features = 0;          // 0 … 1000.
  double noise = 0.3;            // [0, 10^6]: standard deviation.
  uint64_t seed = 1;
};

absl::StatusOr<SynthSpec> ParseSynth(const std::string& uri);
absl::StatusOr<RegressionSpec> ParseSynthRegression(const std::string& uri);
absl::StatusOr<MatrixSpec> ParseSynthMatrix(const std::string& uri);
absl::StatusOr<ImageSpec> ParseSynthImages(const std::string& uri);
absl::StatusOr<SequenceSpec> ParseSynthSequences(const std::string& uri);
absl::StatusOr<LetterSpec> ParseSynthLetters(const std::string& uri);

// The kind of generated rows with classes: "logistic" or "images".
absl::StatusOr<std::string> SynthRowsKind(const std::string& uri);

// The kind of generated rows with numbers to predict: "regression" or "matrix".
absl::StatusOr<std::string> SynthNumbersKind(const std::string& uri);

// OK if `uri` is a good name of generated rows, with numbers to predict (`regression`) or with classes.
absl::Status CheckSynthRows(const std::string& uri, bool regression);
// OK if `uri` is a good name of generated sequences in `format`: "letters", else columns or attributes.
absl::Status CheckSynthChains(const std::string& uri, absl::string_view format);

}  // namespace luthier::notation

#endif  // LUTHIER_LIB_NOTATION_SYNTH_SPECS_H_
