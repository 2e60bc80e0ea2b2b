#ifndef LUTHIER_LIB_CRF_FEATURES_LETTERS_READER_H_
#define LUTHIER_LIB_CRF_FEATURES_LETTERS_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/crf/features/chain_data.h"
#include "lib/data/synth_chains.h"
#include "lib/data/text_source.h"

namespace luthier::crf {

// Handwritten words; each is a sequence of letters (Kassel 1995; Taskar et al. 2003). Attributes 0
// to 127 are the pixels that are on. Every token has attribute 128, the first of a word 129, the
// last 130.
struct Letters {
  ChainData data;
  std::vector<std::string> fold;  // Fold of each word, as written in the file.
};

// Reads one of two formats. Fields are separated by single tabs, and the number of fields in the
// first line decides which format it is:
//   letter.data:  id letter next_id word_id position fold p_0_0 ... p_15_7     a word ends at next_id = -1
//   letters.tsv:  fold word position letter bitmap     a word ends where `word` or `fold` changes; bitmap: 32
//                 hexadecimal digits, the pixels row by row, most significant bit first
// Returns errors like those of ReadColumnText. If a field is wrong, the error names its column, the
// byte of the line counted from 1.
absl::StatusOr<Letters> ReadLetters(data::LineReader& lines);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_LETTERS_READER_H_
