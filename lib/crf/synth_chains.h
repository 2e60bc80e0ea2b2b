#ifndef LUTHIER_LIB_CRF_SYNTH_CHAINS_H_
#define LUTHIER_LIB_CRF_SYNTH_CHAINS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

// Generated sequences, so that tests, examples and benchmarks need no download; generated rows are in
// lib/learn/synth.h. They are made as the text of a file and read by its reader. A function of the URI alone, on every
// machine up to rounding in the last bit of exp and pow.
namespace luthier::crf {

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

// All keys are optional, fields as above. INVALID_ARGUMENT for anything else, with the closest legal kind or key.
absl::StatusOr<SequenceSpec> ParseSynthSequences(const std::string& uri);
absl::StatusOr<LetterSpec> ParseSynthLetters(const std::string& uri);

// The text of a file with at least two labels. CANCELLED when stopped.
absl::StatusOr<std::string> SynthesizeSequences(const SequenceSpec& spec, const base::StopToken& stop = {});
absl::StatusOr<std::string> SynthesizeAttributes(const SequenceSpec& spec, const base::StopToken& stop = {});
absl::StatusOr<std::string> SynthesizeLetters(const LetterSpec& spec, const base::StopToken& stop = {});

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_SYNTH_CHAINS_H_
