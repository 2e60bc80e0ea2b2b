#include "client/cli/browser.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"

namespace luthier::cli {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string InPath(const std::string& program) {
  if (absl::StrContains(program, '/')) return access(program.c_str(), X_OK) == 0 ? program : "";
  for (const absl::string_view folder : absl::StrSplit(Variable("PATH"), ':', absl::SkipEmpty())) {
    const std::string path = absl::StrCat(folder, "/", program);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

// Writes a page that leads to `address`, readable by this user alone. Addresses have no characters that mean anything
// to HTML or scripts.
bool WriteWay(const std::string& path, const std::string& address) {
  const std::string text = absl::StrCat(
      "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><title>Luthier</title>",
      "<script>location.replace(\"", address, "\")</script>\n");
  unlink(path.c_str());
  const base::Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  return file.get() >= 0 && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

void Start(const std::string& program, const std::string& argument) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Ctrl-C is for this program, not for the browser; and the signals that this program waits for are not held back.
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::string name = program, last = argument;
  std::array<char*, 3> argv = {name.data(), last.data(), nullptr};
  pid_t pid = 0;
  posix_spawn(&pid, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
}

}  // namespace

std::function<void(const std::string& address)> FindBrowser() {
  if (Variable("DISPLAY").empty() && Variable("WAYLAND_DISPLAY").empty()) return nullptr;
  const std::string chosen = Variable("BROWSER");
  const std::string program = InPath(chosen.empty() ? "xdg-open" : chosen);
  const std::string folder = Variable("XDG_RUNTIME_DIR");
  if (program.empty() || folder.empty()) return nullptr;
  return [program, way = absl::StrCat(folder, "/luthier-page.html")](const std::string& address) {
    if (WriteWay(way, address)) Start(program, way);
  };
}

}  // namespace luthier::cli
