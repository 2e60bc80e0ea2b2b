#ifndef LUTHIER_CLIENT_CLI_MAN_PAGE_H_
#define LUTHIER_CLIENT_CLI_MAN_PAGE_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace luthier::cli {

// Returns the manual page (section 1, roff) of `app`, with its verbs and their options, made from its help. `version`
// stands at its foot.
std::string ManPage(const CLI::App& app, absl::string_view version);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_MAN_PAGE_H_
