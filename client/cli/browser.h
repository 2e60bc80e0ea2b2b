#ifndef LUTHIER_CLIENT_CLI_BROWSER_H_
#define LUTHIER_CLIENT_CLI_BROWSER_H_

#include <functional>
#include <string>

namespace luthier::cli {

// Returns what opens an address in the user's browser: $BROWSER, else xdg-open. Null: there is no screen, no such
// program, or no folder of the user alone ($XDG_RUNTIME_DIR). The address may have a token, which other users of the
// machine could read among the arguments of a process: so the browser gets the name of a file that leads there.
std::function<void(const std::string& address)> FindBrowser();

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_BROWSER_H_
