#ifndef LUTHIER_LIB_CRF_FEATURES_LETTERS_READER_H_
#define LUTHIER_LIB_CRF_FEATURES_LETTERS_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/crf/features/chain_data.h"
#include "lib/data/synth_chains.h"
#include "lib/data/text_source.h"

namespace luthier::crf {

// Handwritten words, a sequence of letters each (Kassel 1995; Taskar et al. 2003). Attributes: the 128 pixels that are
// on, then 128 for every token, 129 for the first and 130 for the last of a word.
struct Letters {
  ChainData data;
  std::vector<std::string> fold;  // Fold of each word, as the file has it.
};

// Two forms, told apart by the first line's number of fields; fields are separated by single tabs:
//   letter.data:  id letter next_id word_id position fold p_0_0 ... p_15_7     a word ends at next_id = -1
//   letters.tsv:  fold word position letter bitmap     a word ends where `word` or `fold` changes; bitmap: 32
//                 hexadecimal digits, the pixels row by row, most significant bit first
// Errors as of ReadColumnText, with the column (byte of the line, from 1) where a field is at fault.
absl::StatusOr<Letters> ReadLetters(data::LineReader& lines);

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_LETTERS_READER_H_
