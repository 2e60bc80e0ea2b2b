#include "server/storage/page_sums.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/log.h"
#include "lib/base/mutex.h"

namespace luthier::storage {
namespace {

constexpr int kFileHeaderBytes = 100;
constexpr int kReservedOffset = 20;   // Bytes that SQLite leaves alone at the end of each page.
constexpr int kPageCountOffset = 28;  // Big endian.
constexpr int kContentBytes = kPageBytes - kPageSumBytes;
constexpr int kSmallestPage = 512;
constexpr size_t kMaxLogged = 100;

using Page = std::array<char, kPageBytes>;

std::array<char, kPageSumBytes> SumOf(const char* page, int64_t number) {
  const uint64_t hash = base::Hash64(absl::string_view(page, kContentBytes), static_cast<uint64_t>(number));
  std::array<char, kPageSumBytes> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(hash >> (8 * i) & 0xFF);
  return bytes;
}

bool IsRight(const char* page, int64_t number) {
  return std::memcmp(SumOf(page, number).data(), page + kContentBytes, kPageSumBytes) == 0;
}

bool HeaderHasRoom(const char* header) {
  constexpr char kMagic[] = "SQLite format 3";
  return std::memcmp(header, kMagic, sizeof(kMagic)) == 0 && header[kReservedOffset] == kPageSumBytes;
}

bool IsPage(int bytes, sqlite3_int64 offset) {
  return bytes == kPageBytes && offset % kPageBytes == 0;
}

// Logs one line a page; otherwise each statement that needs the page would log the same.
void LogDamage(const std::string& file, int64_t page) {
  static base::Mutex mutex;
  static auto* const logged = new std::set<std::pair<std::string, int64_t>>();
  base::MutexLock lock(&mutex);
  if (logged->size() >= kMaxLogged || !logged->emplace(file, page).second) return;
  base::LogError("storage_page_damaged", {{"file", file}, {"page", absl::StrCat(page)}});
}

// A database file; the file of the VFS below follows it in memory.
struct SummedFile {
  sqlite3_file base;
  bool summed;       // True if its header says that there is room for checksums.
  const char* name;  // SQLite keeps it until the file is closed.
};

sqlite3_file* Below(sqlite3_file* file) {
  return reinterpret_cast<sqlite3_file*>(reinterpret_cast<SummedFile*>(file) + 1);
}
SummedFile* Ours(sqlite3_file* file) {
  return reinterpret_cast<SummedFile*>(file);
}
sqlite3_vfs* Below(sqlite3_vfs* vfs) {
  return static_cast<sqlite3_vfs*>(vfs->pAppData);
}

int Close(sqlite3_file* file) {
  const int code = Below(file)->pMethods->xClose(Below(file));
  if (code == SQLITE_OK) file->pMethods = nullptr;
  return code;
}

int Read(sqlite3_file* file, void* buffer, int bytes, sqlite3_int64 offset) {
  SummedFile* const ours = Ours(file);
  const int code = Below(file)->pMethods->xRead(Below(file), buffer, bytes, offset);
  const auto* const page = static_cast<const char*>(buffer);
  if (code == SQLITE_OK && offset == 0 && bytes >= kFileHeaderBytes) ours->summed = HeaderHasRoom(page);
  // SQLite believes the header. A header with another size of pages was changed.
  if (ours->summed && offset == 0 && bytes >= kSmallestPage && bytes != kPageBytes) return SQLITE_IOERR_DATA;
  if (!ours->summed || !IsPage(bytes, offset)) return code;
  if (code != SQLITE_OK && code != SQLITE_IOERR_SHORT_READ) return code;
  const int64_t number = offset / kPageBytes + 1;
  if (code == SQLITE_OK && IsRight(page, number)) return SQLITE_OK;
  LogDamage(ours->name == nullptr ? "" : ours->name, number);
  return SQLITE_IOERR_DATA;
}

int Write(sqlite3_file* file, const void* buffer, int bytes, sqlite3_int64 offset) {
  SummedFile* const ours = Ours(file);
  if (!IsPage(bytes, offset)) return Below(file)->pMethods->xWrite(Below(file), buffer, bytes, offset);
  if (offset == 0) ours->summed = HeaderHasRoom(static_cast<const char*>(buffer));
  if (!ours->summed) return Below(file)->pMethods->xWrite(Below(file), buffer, bytes, offset);
  Page page;
  std::memcpy(page.data(), buffer, kContentBytes);
  const auto sum = SumOf(page.data(), offset / kPageBytes + 1);
  std::memcpy(page.data() + kContentBytes, sum.data(), sum.size());
  return Below(file)->pMethods->xWrite(Below(file), page.data(), bytes, offset);
}

int Truncate(sqlite3_file* f, sqlite3_int64 size) {
  return Below(f)->pMethods->xTruncate(Below(f), size);
}
int Sync(sqlite3_file* f, int flags) {
  return Below(f)->pMethods->xSync(Below(f), flags);
}
int FileSize(sqlite3_file* f, sqlite3_int64* size) {
  return Below(f)->pMethods->xFileSize(Below(f), size);
}
int Lock(sqlite3_file* f, int kind) {
  return Below(f)->pMethods->xLock(Below(f), kind);
}
int Unlock(sqlite3_file* f, int kind) {
  return Below(f)->pMethods->xUnlock(Below(f), kind);
}
int CheckReservedLock(sqlite3_file* f, int* held) {
  return Below(f)->pMethods->xCheckReservedLock(Below(f), held);
}
int FileControl(sqlite3_file* f, int what, void* argument) {
  return Below(f)->pMethods->xFileControl(Below(f), what, argument);
}
int SectorSize(sqlite3_file* f) {
  return Below(f)->pMethods->xSectorSize(Below(f));
}
int DeviceCharacteristics(sqlite3_file* f) {
  return Below(f)->pMethods->xDeviceCharacteristics(Below(f));
}
int ShmMap(sqlite3_file* f, int region, int size, int extend, void volatile** memory) {
  return Below(f)->pMethods->xShmMap(Below(f), region, size, extend, memory);
}
int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
  return Below(f)->pMethods->xShmLock(Below(f), offset, n, flags);
}
void ShmBarrier(sqlite3_file* f) {
  Below(f)->pMethods->xShmBarrier(Below(f));
}
int ShmUnmap(sqlite3_file* f, int remove) {
  return Below(f)->pMethods->xShmUnmap(Below(f), remove);
}

// Version 2 has shared memory, but no memory mapping, whose reads we would not see.
constexpr sqlite3_io_methods Methods(int version) {
  return {version,
          Close,
          Read,
          Write,
          Truncate,
          Sync,
          FileSize,
          Lock,
          Unlock,
          CheckReservedLock,
          FileControl,
          SectorSize,
          DeviceCharacteristics,
          ShmMap,
          ShmLock,
          ShmBarrier,
          ShmUnmap,
          nullptr,
          nullptr};
}
constexpr sqlite3_io_methods kMethods1 = Methods(1);
constexpr sqlite3_io_methods kMethods2 = Methods(2);

int Open(sqlite3_vfs* vfs, sqlite3_filename name, sqlite3_file* file, int flags, int* out_flags) {
  // Journals and WALs belong to the VFS below.
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return Below(vfs)->xOpen(Below(vfs), name, file, flags, out_flags);
  SummedFile* const ours = Ours(file);
  *ours = {{nullptr}, false, name};
  Below(file)->pMethods = nullptr;
  const int code = Below(vfs)->xOpen(Below(vfs), name, Below(file), flags, out_flags);
  if (Below(file)->pMethods == nullptr) return code;
  file->pMethods = Below(file)->pMethods->iVersion >= 2 ? &kMethods2 : &kMethods1;
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync) {
  return Below(vfs)->xDelete(Below(vfs), name, sync);
}
int Access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  return Below(vfs)->xAccess(Below(vfs), name, flags, result);
}
int FullPathname(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  return Below(vfs)->xFullPathname(Below(vfs), name, size, out);
}
int Randomness(sqlite3_vfs* vfs, int size, char* out) {
  return Below(vfs)->xRandomness(Below(vfs), size, out);
}
int Sleep(sqlite3_vfs* vfs, int microseconds) {
  return Below(vfs)->xSleep(Below(vfs), microseconds);
}
int CurrentTime(sqlite3_vfs* vfs, double* out) {
  return Below(vfs)->xCurrentTime(Below(vfs), out);
}
int GetLastError(sqlite3_vfs* vfs, int size, char* out) {
  return Below(vfs)->xGetLastError == nullptr ? 0 : Below(vfs)->xGetLastError(Below(vfs), size, out);
}

struct Registered {
  std::string name;
  sqlite3_vfs vfs = {};
};

absl::Status CannotRead(const std::string& path) {
  return absl::DataLossError(absl::StrCat(path, ": ", std::strerror(errno)));
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

bool IsZero(const Page& page) {
  return std::all_of(page.begin(), page.end(), [](char c) { return c == 0; });
}

}  // namespace

absl::StatusOr<std::string> SummedVfs(const std::string& base) {
  static base::Mutex mutex;
  static auto* const registered = new std::map<std::string, std::unique_ptr<Registered>>();
  sqlite3_vfs* const below = sqlite3_vfs_find(base.empty() ? nullptr : base.c_str());
  if (below == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no SQLite VFS ", base));
  base::MutexLock lock(&mutex);
  std::unique_ptr<Registered>& entry = (*registered)[base];
  const bool fresh = entry == nullptr;
  if (fresh) {
    entry = std::make_unique<Registered>();
    entry->name = absl::StrCat("luthier-sums-", base);  // SQLite keeps its address.
  }
  sqlite3_vfs& vfs = entry->vfs;
  // The VFS of this name may have been replaced by another.
  if (!fresh && vfs.pAppData == below) return entry->name;
  if (!fresh) sqlite3_vfs_unregister(&vfs);
  vfs = {};
  vfs.iVersion = 1;
  vfs.szOsFile = static_cast<int>(sizeof(SummedFile)) + below->szOsFile;
  vfs.mxPathname = below->mxPathname;
  vfs.zName = entry->name.c_str();
  vfs.pAppData = below;
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  vfs.xAccess = Access;
  vfs.xFullPathname = FullPathname;
  vfs.xRandomness = Randomness;
  vfs.xSleep = Sleep;
  vfs.xCurrentTime = CurrentTime;
  vfs.xGetLastError = GetLastError;
  if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK) return absl::InternalError("SQLite refuses another VFS");
  return entry->name;
}

absl::Status ReservePageSums(sqlite3* db) {
  int bytes = kPageSumBytes;
  if (sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes) == SQLITE_OK) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this SQLite (", sqlite3_libversion(), ") can't leave room for checksums of pages"));
}

bool HasPageSums(sqlite3* db) {
  int bytes = -1;
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &bytes) == SQLITE_OK && bytes == kPageSumBytes;
}

absl::Status SealPages(const std::string& path) {
  const Descriptor file(path, O_RDWR);
  Page page;
  for (int64_t number = 1;; ++number) {
    const off_t offset = (number - 1) * kPageBytes;
    const ssize_t got = pread(file.get(), page.data(), page.size(), offset);
    if (got < 0) return CannotRead(path);
    if (got < kPageBytes) return absl::OkStatus();
    if (number == 1 && !HeaderHasRoom(page.data())) return absl::OkStatus();
    if (IsZero(page)) continue;  // The page was never used.
    const auto sum = SumOf(page.data(), number);
    if (std::memcmp(page.data() + kContentBytes, sum.data(), sum.size()) == 0) continue;
    if (pwrite(file.get(), sum.data(), sum.size(), offset + kContentBytes) != static_cast<ssize_t>(sum.size())) {
      return CannotRead(path);
    }
  }
}

absl::StatusOr<PageScan> ScanPages(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  PageScan scan;
  Page page;
  int64_t wanted = 0;
  bool any_right = false;  // True if the file had checksums, whatever the header says now.
  for (int64_t number = 1;; ++number) {
    const ssize_t got = pread(file.get(), page.data(), page.size(), (number - 1) * kPageBytes);
    if (got < 0) return CannotRead(path);
    if (number == 1 && got >= kFileHeaderBytes) {
      scan.summed = HeaderHasRoom(page.data());
      for (int i = 0; i < 4; ++i) wanted = wanted << 8 | static_cast<unsigned char>(page[kPageCountOffset + i]);
    }
    if (got < kPageBytes) {
      scan.cut_off = got > 0 || number <= wanted;
      scan.summed = scan.summed || any_right;
      if (!scan.summed) scan.wrong.clear();
      return scan;
    }
    ++scan.pages;
    if (IsRight(page.data(), number)) {
      any_right = true;
    } else if (number == 1 || !IsZero(page)) {
      // A page that was freed before it was ever written is zero; SQLite does not read it.
      scan.wrong.push_back(number);
    }
  }
}

}  // namespace luthier::storage
