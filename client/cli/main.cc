// luthier: the command line.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "client/cli/cli.h"
#include "client/cpp/client.h"
#include "lib/base/heap.h"
#include "lib/wire/channel.h"

namespace {

int TerminalWidth(int fd) {
  winsize size = {};
  if (!isatty(fd)) return 0;
  constexpr int kUsual = 80;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

int main(int argc, char** argv) {
  luthier::base::KeepFreedMemory();
  signal(SIGPIPE, SIG_IGN);
  luthier::wire::PrepareGrpc(/*errors_too=*/false);
  luthier::wire::LookAfterConnections();
  luthier::cli::Environment environment;
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
  environment.seed = luthier::client::EntropySeed();
  environment.terminal_width = TerminalWidth(STDERR_FILENO);
  environment.out_width = TerminalWidth(STDOUT_FILENO);
  std::error_code error;
  environment.program_directory = std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  environment.host = host;
  return luthier::cli::RunCli(std::vector<std::string>(argv + 1, argv + argc), environment);
}
