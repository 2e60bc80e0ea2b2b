#ifndef LUTHIER_LIB_DATA_SYNTH_CHAINS_H_
#define LUTHIER_LIB_DATA_SYNTH_CHAINS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/notation/synth_specs.h"

// Generated sequences, so that tests, examples and benchmarks need no download; generated rows are in lib/data/synth.h.
// They are made as the text of a file and read by its reader. The text is a function of the URI alone, on every machine
// up to rounding in the last bit of exp and pow. Names and their meanings: lib/notation/synth_specs.h.
namespace luthier::data {

// Pixels of a letter: 16 rows of 8.
inline constexpr int kLetterPixels = 128;

// Makes the text of a file with at least two labels. Returns CANCELLED when stopped.
absl::StatusOr<std::string> SynthesizeSequences(const notation::SequenceSpec& spec, const base::StopToken& stop = {});
absl::StatusOr<std::string> SynthesizeAttributes(const notation::SequenceSpec& spec, const base::StopToken& stop = {});
absl::StatusOr<std::string> SynthesizeLetters(const notation::LetterSpec& spec, const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_SYNTH_CHAINS_H_
