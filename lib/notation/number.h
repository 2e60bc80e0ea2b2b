#ifndef LUTHIER_LIB_NOTATION_NUMBER_H_
#define LUTHIER_LIB_NOTATION_NUMBER_H_

#include "absl/strings/string_view.h"

namespace luthier::notation {

// A decimal number with optional sign and exponent, as data files and names of generated data write it: no hexadecimal,
// no surrounding blanks. "nan" and "inf" parse (readers then refuse them by name). False if `text` is not a number or
// is beyond a double.
bool ParseNumber(absl::string_view text, double* value);

}  // namespace luthier::notation

#endif  // LUTHIER_LIB_NOTATION_NUMBER_H_
