#include "client/cli/fleet/engine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/clock.h"
#include "lib/base/printable.h"
#include "lib/base/secret.h"
#include "lib/base/status_macros.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kLogFilesShown = 1000;

absl::Status CannotWriteFile(const std::string& path) {
  return absl::FailedPreconditionError(absl::StrCat("can't write ", path, ": ", std::strerror(errno)));
}

}  // namespace

std::unique_ptr<Engine> MakeEngine(const std::string& name, const Environment& environment) {
  if (name == "slurm") return MakeSlurmEngine(environment);
  if (name == "k8s") return MakeKubernetesEngine(environment);
  if (name == "ray") return MakeRayEngine(environment);
  return MakeLocalEngine(environment);
}

absl::Status MakeFleetDirectory(const Fleet& fleet) {
  std::error_code error;
  fs::create_directories(fleet.directory, error);
  if (!error && chmod(fleet.directory.c_str(), 0700) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("can't make ", fleet.directory, ": ", error ? error.message() : std::strerror(errno)));
}

absl::StatusOr<std::string> TokenFileFor(const Fleet& fleet) {
  if (fleet.security.token.empty()) return std::string();
  if (!fleet.security.token_file.empty()) return fleet.security.token_file;
  LUTHIER_RETURN_IF_ERROR(MakeFleetDirectory(fleet));
  const std::string path = fleet.directory + "/token", fresh = path + ".new";
  // Renamed into its place: a worker that starts just now reads the old token or the new one.
  unlink(fresh.c_str());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return CannotWriteFile(fresh);
  const std::string text = fleet.security.token + "\n";
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (close(fd) != 0 || !written || rename(fresh.c_str(), path.c_str()) != 0) return CannotWriteFile(path);
  return path;
}

absl::Status PrintLogFiles(const Fleet& fleet, int lines, std::ostream& out) {
  std::vector<std::pair<fs::file_time_type, std::string>> files;
  std::error_code error;
  for (auto it = fs::directory_iterator(fleet.directory, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (it->path().extension() == ".log") files.emplace_back(it->last_write_time(error), it->path().string());
  }
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat("there are no logs in ", fleet.directory, "; no worker has begun yet"));
  }
  std::sort(files.begin(), files.end());
  if (files.size() > kLogFilesShown) files.erase(files.begin(), files.end() - kLogFilesShown);
  for (const auto& [time, path] : files) {
    std::ifstream in(path);
    std::deque<std::string> last;
    for (std::string line; std::getline(in, line);) {
      last.push_back(std::move(line));
      if (last.size() > static_cast<size_t>(lines)) last.pop_front();
    }
    out << "==> " << path << " <==\n";
    for (const std::string& line : last) out << base::PrintableLines(base::HideTokens(line)) << "\n";
  }
  return absl::OkStatus();
}

absl::Status AwaitGone(absl::Duration patience, const std::function<absl::StatusOr<bool>()>& gone) {
  const base::SystemClock clock;
  const absl::Duration until = clock.Monotonic() + patience;
  for (;;) {
    LUTHIER_ASSIGN_OR_RETURN(const bool done, gone());
    if (done) return absl::OkStatus();
    if (clock.Monotonic() >= until) {
      return absl::DeadlineExceededError(
          absl::StrCat("some workers still run after ", absl::FormatDuration(patience), "; look at them with status"));
    }
    const timespec pause = {0, 200'000'000};
    nanosleep(&pause, nullptr);
  }
}

}  // namespace luthier::cli
