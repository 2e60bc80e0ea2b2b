#include "client/cli/program.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "client/cli/browser.h"
#include "client/cli/cli.h"
#include "client/cpp/client.h"
#include "lib/base/heap.h"
#include "lib/wire/channel.h"
#include "lib/wire/steady_waits.h"

namespace luthier::cli {
namespace {

int TerminalWidth(int fd) {
  winsize size = {};
  if (!isatty(fd)) return 0;
  constexpr int kUsual = 80;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

int Main(int argc, char** argv, const std::string& program_directory) {
  base::KeepFreedMemory();
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // A file that may not grow is an error of the write, which is told.
  wire::PrepareGrpc(/*errors_too=*/false);
  wire::KeepWaitsSteady();
  wire::LookAfterConnections();
  Environment environment;
  environment.out = &std::cout;
  environment.out_closed = [] {
    pollfd out = {STDOUT_FILENO, POLLOUT, 0};
    return poll(&out, 1, 0) == 1 && (out.revents & (POLLERR | POLLHUP)) != 0;
  };
  environment.err = &std::cerr;
  environment.in = &std::cin;
  environment.getenv = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
  environment.seed = client::EntropySeed();
  environment.terminal_width = TerminalWidth(STDERR_FILENO);
  environment.out_width = TerminalWidth(STDOUT_FILENO);
  if (environment.out_width > 0) environment.open_browser = FindBrowser();
  environment.program_directory = program_directory;
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  environment.host = host;
  return RunCli(std::vector<std::string>(argv + 1, argv + argc), environment);
}

}  // namespace luthier::cli
