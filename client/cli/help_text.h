#ifndef LUTHIER_CLIENT_CLI_HELP_TEXT_H_
#define LUTHIER_CLIENT_CLI_HELP_TEXT_H_

#include <cstddef>
#include <string>

namespace luthier::cli {

// The column in which help describes an option.
inline constexpr size_t kHelpColumn = 36;

// Breaks the lines of `help` that are longer than 80 columns between words. Descriptions go on in their column.
// Examples, which begin with "  luthier", are not broken, because people copy them.
std::string WrapHelp(const std::string& help);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_HELP_TEXT_H_
