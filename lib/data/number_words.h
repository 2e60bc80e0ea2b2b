#ifndef LUTHIER_LIB_DATA_NUMBER_WORDS_H_
#define LUTHIER_LIB_DATA_NUMBER_WORDS_H_

#include "absl/strings/string_view.h"

namespace luthier::data {

// Describes a text that stands where a number belongs and is none: how it looks and how to mend it, without the text
// itself. The description goes on from "column 3 ": "is written with a decimal comma; export with a point", "is a date;
// …".
const char* WhyNoNumber(absl::string_view text);

// Returns true for a number with a comma before its decimals, such as -0,75 and 1,5e-3.
bool HasDecimalComma(absl::string_view text);

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_NUMBER_WORDS_H_
