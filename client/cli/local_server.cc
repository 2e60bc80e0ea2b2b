#include "client/cli/local_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/context.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/ownership.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/proposals/replay.h"
#include "server/server.h"
#include "server/storage/damage.h"
#include "server/storage/sqlite_storage.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kDatabase[] = "luthier.db";
constexpr size_t kMaxSocketPath = 100;

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// True if somebody listens on the socket of a data directory, even if its path is longer than a socket's may be.
bool Answers(const std::string& directory) {
  const base::Descriptor folder(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string path = absl::StrCat("/proc/self/fd/", folder.get(), "/socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const base::Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return folder.get() >= 0 && connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

// Returns the path by which to listen in a data directory: its own, or, since paths of sockets are short, one through a
// link to it in a fresh private directory. So the socket is where other programs look for it.
absl::StatusOr<std::string> SocketPath(const std::string& directory, std::string* temporary) {
  const std::string inside = directory + "/socket";
  if (inside.size() <= kMaxSocketPath) return inside;
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(
        absl::StrCat("can't make the data directory ", directory, ": ", std::strerror(errno)));
  }
  std::string name = fs::temp_directory_path().string() + "/luthier-XXXXXX";
  if (mkdtemp(name.data()) == nullptr || symlink(directory.c_str(), (name + "/d").c_str()) != 0) {
    return absl::InternalError(absl::StrCat("can't make a link for the socket in ", name, ": ", std::strerror(errno)));
  }
  *temporary = name;
  return name + "/d/socket";
}

class OwnServer final : public LocalServer {
 public:
  ~OwnServer() override {
    if (server_) server_->Stop();
    std::error_code ignored;
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
  }
  absl::Status Open(const std::string& directory, bool keep_tokens) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string socket, SocketPath(directory, &temporary_));
    server::ServerOptions options;
    options.data_dir = directory;
    options.listen = "unix:" + socket;
    options.keep_tokens = keep_tokens;
    LUTHIER_ASSIGN_OR_RETURN(server_, server::Server::Start(options));
    address_ = server_->address();
    return absl::OkStatus();
  }
  const std::string& address() const override { return address_; }
  bool own() const override { return true; }

 private:
  std::string temporary_;
  std::string address_;
  std::unique_ptr<server::Server> server_;
};

class OthersServer final : public LocalServer {
 public:
  explicit OthersServer(std::string address) : address_(std::move(address)) {}
  const std::string& address() const override { return address_; }
  bool own() const override { return false; }

 private:
  const std::string address_;
};

absl::StatusOr<std::unique_ptr<storage::SqliteStorage>> OpenToLook(const std::string& directory) {
  if (!IsFile(directory + "/" + kDatabase)) {
    return absl::NotFoundError(absl::StrCat("there is no database in ", base::Quote(directory),
                                            "; --db names the directory that `luthier run` or luthierd made"));
  }
  storage::SqliteOptions options;
  options.directory = directory;
  options.read_only = true;
  options.readers = 1;
  return storage::SqliteStorage::Open(options);
}

}  // namespace

absl::Status CheckDefaultDirectory() {
  const absl::Status owned = base::CheckOwnership(kDefaultDirectory, geteuid(), base::CurrentFolder::kTrusted);
  if (owned.ok() || absl::IsNotFound(owned)) return absl::OkStatus();
  return UsageError(
      "--db", absl::StrCat("is not given, and the database of this folder is not taken unasked: ", owned.message(),
                           "; write --db ", kDefaultDirectory, " if it is to be this one, else name another"));
}

std::string DataDirectory(const std::string& path) {
  fs::path p = fs::absolute(path).lexically_normal();
  if (p.filename() == kDatabase && !fs::is_directory(p)) p = p.parent_path();
  std::string text = p.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

absl::StatusOr<std::unique_ptr<LocalServer>> LocalServer::Start(const std::string& directory, Use use) {
  if (use != Use::kRun) {
    if (!IsFile(directory + "/" + kDatabase)) return OpenToLook(directory).status();
    if (Answers(directory)) {
      return std::unique_ptr<LocalServer>(std::make_unique<OthersServer>("unix:" + directory + "/socket"));
    }
  }
  auto own = std::make_unique<OwnServer>();
  if (const absl::Status opened = own->Open(directory, use == Use::kAdmin); !opened.ok()) {
    if (!absl::StrContains(opened.message(), "is in use by")) return opened;
    return absl::FailedPreconditionError(absl::StrCat(
        std::string(opened.message()), use != Use::kRun
                                           ? "; if it is a luthierd, reach it with --server ADDRESS instead of --db"
                                           : "; `run` needs one of its own: name it with --db"));
  }
  return std::unique_ptr<LocalServer>(std::move(own));
}

absl::StatusOr<std::vector<client::LeaseRef>> LeasesOfWorkers(const std::string& directory, const std::string& study,
                                                              const std::string& prefix) {
  std::vector<client::LeaseRef> leases;
  if (!IsFile(directory + "/" + kDatabase)) return leases;
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<storage::SqliteStorage> storage, OpenToLook(directory));
  const absl::StatusOr<storage::StudyRecord> record = storage->GetStudy(study);
  if (absl::IsNotFound(record.status())) return leases;
  LUTHIER_RETURN_IF_ERROR(record.status());
  constexpr int kPage = 1000;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> page,
                             storage->ListTrials(record->key, {{study::TrialState::kRunning}}, after, kPage));
    for (const storage::TrialRecord& trial : page) {
      after = trial.trial.number;
      if (trial.grants.empty() || trial.trial.attempts.empty()) continue;
      if (!absl::StartsWith(trial.trial.attempts.back().worker, prefix)) continue;
      leases.push_back({study, trial.trial.number, trial.grants.back().token});
    }
    if (page.size() < kPage) return leases;
  }
}

absl::StatusOr<std::vector<ReplayResult>> VerifyReplay(const std::string& directory, const std::string& study) {
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<storage::SqliteStorage> storage, OpenToLook(directory));
  std::vector<storage::StudyRecord> records;
  if (!study.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(storage::StudyRecord record, storage->GetStudy(study));
    records.push_back(std::move(record));
  } else {
    constexpr int kPage = 1000;
    for (std::string after;;) {
      LUTHIER_ASSIGN_OR_RETURN(std::vector<storage::StudyRecord> page, storage->ListStudies(after, kPage));
      const bool last = page.size() < kPage;
      if (!page.empty()) after = page.back().id;
      std::move(page.begin(), page.end(), std::back_inserter(records));
      if (last) break;
    }
  }
  std::vector<ReplayResult> results;
  for (const storage::StudyRecord& record : records) {
    absl::StatusOr<coordinator::ReplayReport> replayed = record.damage.ok()
                                                             ? coordinator::VerifyReplay(storage.get(), record)
                                                             : absl::StatusOr<coordinator::ReplayReport>(record.damage);
    if (storage::IsDamage(replayed.status())) {  // Suggestions of other studies can be computed all the same.
      results.push_back({record.id, 0, 0, {std::string(replayed.status().message())}});
      continue;
    }
    LUTHIER_ASSIGN_OR_RETURN(coordinator::ReplayReport report, std::move(replayed));
    results.push_back({record.id, report.checked, report.other_version, std::move(report.mismatches)});
  }
  return results;
}

}  // namespace luthier::cli
