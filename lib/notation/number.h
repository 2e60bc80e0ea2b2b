#ifndef LUTHIER_LIB_NOTATION_NUMBER_H_
#define LUTHIER_LIB_NOTATION_NUMBER_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace luthier::notation {

// Parses a decimal number with optional sign and exponent, as data files and names of generated data write it: no
// hexadecimal, no surrounding blanks. "nan" and "inf" parse (readers then refuse them by name). Returns false if `text`
// is not a number or is beyond a double.
bool ParseNumber(absl::string_view text, double* value);

// Reads NaN and infinity in the spellings of common languages, with a sign or without, in any case: nan, NaN, nan(ind),
// inf, Infinity, the infinity sign, and 1.#IND, 1.#QNAN, 1.#INF of old C libraries. Returns std::nullopt for any other
// text.
std::optional<double> ParseNonFinite(absl::string_view text);

}  // namespace luthier::notation

#endif  // LUTHIER_LIB_NOTATION_NUMBER_H_
