#include "lib/data/data_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/data/data_root.h"

namespace luthier::data {
namespace {

namespace fs = std::filesystem;

constexpr char kKind[] = "luthier.cache/1";
constexpr char kEnding[] = ".lcache";
constexpr char kTemporary[] = ".ltmp";
constexpr int64_t kStaleSeconds = 3600;  // Temporary files of writers that died.

int64_t Nanoseconds(const timespec& t) {
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

std::optional<DataCache::Source> SourceOf(int fd) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return std::nullopt;
  DataCache::Source source;
  source.device = static_cast<uint64_t>(facts.st_dev);
  source.inode = static_cast<uint64_t>(facts.st_ino);
  source.size = static_cast<int64_t>(facts.st_size);
  source.modified = Nanoseconds(facts.st_mtim);
  source.changed = Nanoseconds(facts.st_ctim);
  return source;
}

// Returns true if nothing was written to the source between `a` and `b`.
bool Same(const DataCache::Source& a, const DataCache::Source& b) {
  return std::tie(a.device, a.inode, a.size, a.modified, a.changed) ==
         std::tie(b.device, b.inode, b.size, b.modified, b.changed);
}

// Hashes the file's blocks in a chain of SHA-256; returns "" if the file can't be read.
absl::StatusOr<std::string> ContentHash(int fd, const base::StopToken& stop) {
  std::string block(size_t{1} << 20, '\0');
  std::string hash;
  int64_t at = 0;
  while (true) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const ssize_t count = pread(fd, block.data(), block.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return "";
    if (count == 0) return hash.empty() ? base::Sha256Hex("") : hash;
    // A read that ends early begins another block, which changes the hash: then the entry is not used, no more.
    hash = base::Sha256Hex(hash + block.substr(0, static_cast<size_t>(count)));
    at += count;
  }
}

void LogIgnored(const std::string& path, const std::string& why) {
  base::LogInfo("data_cache_ignored", {{"file", path}, {"why", why}, {"what_now", "it is made anew"}});
}

bool WriteWhole(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Brings a mapped file into memory in pieces, as MAP_POPULATE would at once; if the system cannot, reading will.
absl::Status Populate(char* data, size_t size, const base::StopToken& stop) {
  return base::InPieces(static_cast<int64_t>(size), 1, stop,
                        [&]([[maybe_unused]] int64_t begin, [[maybe_unused]] int64_t end) {
#ifdef MADV_POPULATE_READ
                          madvise(data + begin, static_cast<size_t>(end - begin), MADV_POPULATE_READ);
#endif
                        });
}

}  // namespace

DataCache::Entry::~Entry() {
  if (data_ != nullptr) munmap(data_, size_);
}

absl::StatusOr<DataCache> DataCache::Open(const std::string& directory, const Options& options) {
  std::error_code error;
  const fs::path path(directory);
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  mkdir(directory.c_str(), 0700);  // Data are nobody else's business.
  if (!fs::is_directory(directory, error)) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": is no directory, and cannot be made"));
  }
  if (access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": cannot be written to: ", std::strerror(errno)));
  }
  return DataCache(directory, options);
}

std::string DataCache::PathOf(const std::string& key) const {
  return absl::StrCat(directory_, "/", base::Sha256Hex(key).substr(0, 32), kEnding);
}

bool DataCache::Settled(const Source& source) const {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  // The time of change is the system's own; that of modification can be set to anything.
  return Nanoseconds(now) - source.changed >= options_.settle_nanoseconds;
}

std::optional<DataCache::Source> DataCache::Look(int source_fd) const {
  std::optional<Source> source = SourceOf(source_fd);
  if (!source || source->size < options_.min_source_bytes) return std::nullopt;
  source->settled = Settled(*source);
  return source;
}

std::string DataCache::StateOf(int further_fd) const {
  const std::optional<Source> source = SourceOf(further_fd);
  if (!source || !Settled(*source)) return "";
  return absl::StrCat(source->device, " ", source->inode, " ", source->size, " ", source->modified, " ",
                      source->changed);
}

absl::StatusOr<std::optional<DataCache::Entry>> DataCache::Find(const std::string& key, int source_fd,
                                                                const Source& source,
                                                                const base::StopToken& stop) const {
  const std::string path = PathOf(key);
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.get() < 0) return std::nullopt;
  struct stat facts = {};
  if (fstat(fd.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size == 0) {
    LogIgnored(path, "it is empty, or no file");
    return std::nullopt;
  }
  if (facts.st_uid != geteuid() && facts.st_uid != 0) {
    LogIgnored(path, "it belongs to another user");  // That user could have written anything into it.
    return std::nullopt;
  }
  const auto size = static_cast<size_t>(facts.st_size);
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    LogIgnored(path, absl::StrCat("it cannot be mapped: ", std::strerror(errno)));
    return std::nullopt;
  }
  Entry entry(data, size);
  LUTHIER_RETURN_IF_ERROR(Populate(static_cast<char*>(data), size, stop));
  absl::StatusOr<base::CheckpointReader> reader =
      base::CheckpointReader::Open(absl::string_view(static_cast<const char*>(data), size), kKind, stop);
  if (absl::IsCancelled(reader.status())) return reader.status();
  if (!reader.ok()) {
    LogIgnored(path, std::string(reader.status().message()));
    return std::nullopt;
  }
  const std::string found = reader->Text();
  Source then;
  then.device = reader->U64();
  then.inode = reader->U64();
  then.size = static_cast<int64_t>(reader->U64());
  then.modified = static_cast<int64_t>(reader->U64());
  then.changed = static_cast<int64_t>(reader->U64());
  const std::string hash = reader->Text();
  if (!reader->ok() || found != key) {
    LogIgnored(path, "it belongs to something else");
    return std::nullopt;
  }
  if (!Same(then, source)) {
    std::string hash_now;
    if (then.size == source.size) {
      LUTHIER_ASSIGN_OR_RETURN(hash_now, ContentHash(source_fd, stop));
    }
    const std::optional<Source> now = SourceOf(source_fd);
    if (hash_now.empty() || hash_now != hash || !now || !Same(*now, source)) {
      LogIgnored(path, "the data file has changed");
      return std::nullopt;
    }
  }
  futimens(fd.get(), nullptr);  // Marks the entry as used now.
  entry.reader_ = *std::move(reader);
  return std::optional<Entry>(std::move(entry));
}

absl::Status DataCache::Put(const std::string& key, int source_fd, const Source& source,
                            absl::FunctionRef<void(base::CheckpointWriter*)> write, const base::StopToken& stop) const {
  if (!source.settled) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const std::string hash, ContentHash(source_fd, stop));
  const std::optional<Source> now = SourceOf(source_fd);
  if (hash.empty() || !now || !Same(*now, source)) return absl::OkStatus();
  absl::Status stopped;
  const auto write_all = [&](const std::function<bool(absl::string_view)>& sink) {
    base::CheckpointWriter writer(kKind, [&](absl::string_view bytes) {
      stopped = stop.Poll();
      return stopped.ok() && sink(bytes);
    });
    writer.Text(key);
    writer.U64(source.device);
    writer.U64(source.inode);
    writer.U64(static_cast<uint64_t>(source.size));
    writer.U64(static_cast<uint64_t>(source.modified));
    writer.U64(static_cast<uint64_t>(source.changed));
    writer.Text(hash);
    write(&writer);
    return std::move(writer).Close();
  };
  size_t size = 0;
  const auto count = [&](absl::string_view bytes) {
    size += bytes.size();
    return true;
  };
  if (!write_all(count)) return stopped;
  if (static_cast<int64_t>(size) > options_.max_bytes) {
    base::LogInfo("data_cache_too_small", {{"bytes", absl::StrCat(size)}, {"directory", directory_}});
    return absl::OkStatus();
  }
  static std::atomic<uint64_t> serial = 0;  // Tells temporary files of threads apart.
  const std::string path = PathOf(key);
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".", serial.fetch_add(1), kTemporary);
  bool good = false;
  {
    const UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    good = fd.get() >= 0 && write_all([&](absl::string_view bytes) { return WriteWhole(fd.get(), bytes); });
  }
  good = good && rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) {
    if (stopped.ok()) {
      base::LogWarning("data_cache_not_written", {{"file", path}, {"error", std::strerror(errno)}});
    }
    unlink(temporary.c_str());
    return stopped;
  }
  Shrink();
  return absl::OkStatus();
}

// Removes the entries that were used longest ago until the rest fits, and files that dead writers left.
void DataCache::Shrink() const {
  struct File {
    int64_t used;
    int64_t size;
    std::string path;
  };
  std::vector<File> files;
  int64_t total = 0;
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  std::error_code error;
  for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    const bool temporary = absl::EndsWith(path, kTemporary);
    struct stat facts = {};
    if ((!temporary && !absl::EndsWith(path, kEnding)) || lstat(path.c_str(), &facts) != 0) continue;
    if (temporary) {
      if (now.tv_sec - facts.st_mtim.tv_sec > kStaleSeconds) unlink(path.c_str());
      continue;
    }
    files.push_back({Nanoseconds(facts.st_mtim), static_cast<int64_t>(facts.st_size), path});
    total += files.back().size;
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return std::tie(a.used, a.path) < std::tie(b.used, b.path); });
  for (const File& file : files) {
    if (total <= options_.max_bytes) break;
    if (unlink(file.path.c_str()) == 0) total -= file.size;
  }
}

}  // namespace luthier::data
