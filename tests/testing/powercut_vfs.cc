#include "tests/testing/powercut_vfs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"

namespace luthier::testing {
namespace {

constexpr size_t kSector = 512;
constexpr int kShmLocks = SQLITE_SHM_NLOCK;

size_t SectorsOf(size_t bytes) {
  return (bytes + kSector - 1) / kSector;
}

std::string UniqueName(const void* object) {
  return absl::StrCat("powercut-", reinterpret_cast<uintptr_t>(object));
}

}  // namespace

struct PowerCutVfs::File {
  // What programs see, and what the disk surely has.
  bool exists = false;
  std::vector<char> live;
  bool durable_exists = false;
  std::vector<char> durable;
  std::set<size_t> dirty;  // Sectors written since the last sync.
  std::set<size_t> lost;   // Sectors whose sync failed: clean to look at, yet not on the disk.

  void Sync() {
    if (lost.empty()) {
      durable = live;
    } else {
      durable.resize(live.size());
      for (size_t s = 0; s < SectorsOf(live.size()); ++s) {
        if (lost.count(s) == 0) CopySector(live, s, &durable);
      }
    }
    dirty.clear();
  }
  static void CopySector(const std::vector<char>& from, size_t s, std::vector<char>* to) {
    const size_t begin = s * kSector;
    const size_t end = std::min(begin + kSector, from.size());
    if (to->size() < end) to->resize(end);
    std::copy(from.data() + begin, from.data() + end, to->data() + begin);
  }

  // Locks of the database file, and the shared memory of its WAL. Lost with the power.
  int shared = 0;
  Handle* reserved = nullptr;   // Holder of RESERVED or above.
  Handle* exclusive = nullptr;  // Holder of PENDING or EXCLUSIVE: no new SHARED.
  std::vector<std::unique_ptr<char[]>> shm;
  std::array<int, kShmLocks> shm_shared{};
  std::array<Handle*, kShmLocks> shm_exclusive{};
};

// What SQLite allocates for each open file; `base` must be first.
struct PowerCutVfs::Handle {
  sqlite3_file base;
  PowerCutVfs* vfs;
  std::shared_ptr<File>* file;  // Owned; SQLite's memory is raw.
  int64_t epoch;
  int level;
  bool remove_on_close;
  unsigned shm_shared;  // Masks of what this handle holds.
  unsigned shm_exclusive;
};

// SQLite's C entry points.
struct Methods {
  using Handle = PowerCutVfs::Handle;
  using File = PowerCutVfs::File;
  using Operation = PowerCutVfs::Operation;

  static Handle* Of(sqlite3_file* file) { return reinterpret_cast<Handle*>(file); }
  static PowerCutVfs* Of(sqlite3_vfs* vfs) { return static_cast<PowerCutVfs*>(vfs->pAppData); }

  static int Close(sqlite3_file* f) {
    Handle* h = Of(f);
    Unlock(f, SQLITE_LOCK_NONE);
    base::MutexLock lock(&h->vfs->mutex_);
    if (h->remove_on_close && h->epoch == h->vfs->epoch_) (*h->file)->exists = false;
    delete h->file;
    h->base.pMethods = nullptr;
    return SQLITE_OK;
  }

  static int Read(sqlite3_file* f, void* out, int amount, sqlite3_int64 offset) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h)) return SQLITE_IOERR_READ;
    int code = SQLITE_OK;
    if (!h->vfs->Admit(Operation::kRead, &code)) return code;
    const std::vector<char>& live = (*h->file)->live;
    const auto at = static_cast<size_t>(offset);
    const auto wanted = static_cast<size_t>(amount);
    const size_t got = at >= live.size() ? 0 : std::min(wanted, live.size() - at);
    if (got > 0) std::memcpy(out, live.data() + at, got);
    if (got == wanted) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + got, 0, wanted - got);
    return SQLITE_IOERR_SHORT_READ;
  }

  static int Write(sqlite3_file* f, const void* data, int amount, sqlite3_int64 offset) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h) || !h->vfs->AdmitChange()) return SQLITE_IOERR_WRITE;
    auto size = static_cast<size_t>(amount);
    int code = SQLITE_OK;
    if (!h->vfs->Admit(Operation::kWrite, &code)) {
      if (!h->vfs->fault_->partial) return code;
      size /= 2;
    }
    File& file = **h->file;
    const auto at = static_cast<size_t>(offset);
    if (file.live.size() < at + size) file.live.resize(at + size);
    std::memcpy(file.live.data() + at, data, size);
    for (size_t s = at / kSector; s < SectorsOf(at + size); ++s) {
      file.dirty.insert(s);
      file.lost.erase(s);
    }
    return code;
  }

  static int Truncate(sqlite3_file* f, sqlite3_int64 size) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h) || !h->vfs->AdmitChange()) return SQLITE_IOERR_TRUNCATE;
    File& file = **h->file;
    file.live.resize(static_cast<size_t>(size));
    file.dirty.erase(file.dirty.lower_bound(SectorsOf(file.live.size())), file.dirty.end());
    return SQLITE_OK;
  }

  static int Sync(sqlite3_file* f, int) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h) || !h->vfs->AdmitChange()) return SQLITE_IOERR_FSYNC;
    File& file = **h->file;
    int code = SQLITE_OK;
    if (!h->vfs->Admit(Operation::kSync, &code)) {
      file.lost.insert(file.dirty.begin(), file.dirty.end());
      file.dirty.clear();
      return code;
    }
    if (h->vfs->ignore_syncs_) return SQLITE_OK;
    file.Sync();
    if (!file.durable_exists) h->vfs->SyncDirectory();
    return SQLITE_OK;
  }

  static int FileSize(sqlite3_file* f, sqlite3_int64* size) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h)) return SQLITE_IOERR_FSTAT;
    *size = static_cast<sqlite3_int64>((*h->file)->live.size());
    return SQLITE_OK;
  }

  static int Lock(sqlite3_file* f, int level) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h)) return SQLITE_IOERR_LOCK;
    if (h->level >= level) return SQLITE_OK;
    File& file = **h->file;
    if (h->level == SQLITE_LOCK_NONE) {
      if (file.exclusive != nullptr) return SQLITE_BUSY;
      ++file.shared;
      h->level = SQLITE_LOCK_SHARED;
    }
    if (level >= SQLITE_LOCK_RESERVED) {
      if (file.reserved != nullptr && file.reserved != h) return SQLITE_BUSY;
      file.reserved = h;
      h->level = SQLITE_LOCK_RESERVED;
    }
    if (level >= SQLITE_LOCK_PENDING) {
      file.exclusive = h;
      h->level = SQLITE_LOCK_PENDING;
      if (file.shared > 1) return SQLITE_BUSY;
      h->level = SQLITE_LOCK_EXCLUSIVE;
    }
    return SQLITE_OK;
  }

  static int Unlock(sqlite3_file* f, int level) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (h->level <= level) return SQLITE_OK;
    File& file = **h->file;
    if (h->epoch == h->vfs->epoch_) {
      if (file.reserved == h) file.reserved = nullptr;
      if (file.exclusive == h) file.exclusive = nullptr;
      if (level == SQLITE_LOCK_NONE) --file.shared;
    }
    h->level = level;
    return SQLITE_OK;
  }

  static int CheckReservedLock(sqlite3_file* f, int* reserved) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h)) return SQLITE_IOERR_CHECKRESERVEDLOCK;
    *reserved = (*h->file)->reserved != nullptr ? 1 : 0;
    return SQLITE_OK;
  }

  static int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int SectorSize(sqlite3_file*) { return static_cast<int>(kSector); }
  // As SQLite's own VFS for unix: writing a sector does not harm its neighbours.
  static int DeviceCharacteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

  static int ShmMap(sqlite3_file* f, int region, int size, int extend, void volatile** out) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    *out = nullptr;
    if (Dead(h)) return SQLITE_IOERR_SHMMAP;
    auto& shm = (*h->file)->shm;
    const auto index = static_cast<size_t>(region);
    if (index >= shm.size()) {
      if (extend == 0) return SQLITE_OK;
      while (shm.size() <= index) shm.push_back(std::make_unique<char[]>(static_cast<size_t>(size)));
    }
    *out = shm[index].get();
    return SQLITE_OK;
  }

  static int ShmLock(sqlite3_file* f, int offset, int n, int flags) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    if (Dead(h)) return SQLITE_IOERR_SHMLOCK;
    File& file = **h->file;
    const bool take = (flags & SQLITE_SHM_LOCK) != 0;
    const bool exclusive = (flags & SQLITE_SHM_EXCLUSIVE) != 0;
    for (int slot = offset; take && slot < offset + n; ++slot) {
      const auto i = static_cast<size_t>(slot);
      const unsigned mask = 1u << slot;
      const int others = file.shm_shared[i] - ((h->shm_shared & mask) != 0 ? 1 : 0);
      const bool taken = file.shm_exclusive[i] != nullptr && file.shm_exclusive[i] != h;
      if (taken || (exclusive && others > 0)) return SQLITE_BUSY;
    }
    for (int slot = offset; slot < offset + n; ++slot) SetShm(h, file, slot, take, exclusive);
    return SQLITE_OK;
  }

  static void SetShm(Handle* h, File& file, int slot, bool take, bool exclusive) {
    const auto i = static_cast<size_t>(slot);
    const unsigned mask = 1u << slot;
    if (exclusive) {
      file.shm_exclusive[i] = take ? h : nullptr;
      h->shm_exclusive = take ? h->shm_exclusive | mask : h->shm_exclusive & ~mask;
    } else if (take != ((h->shm_shared & mask) != 0)) {
      file.shm_shared[i] += take ? 1 : -1;
      h->shm_shared ^= mask;
    }
  }

  static void ShmBarrier(sqlite3_file*) { std::atomic_thread_fence(std::memory_order_seq_cst); }

  static int ShmUnmap(sqlite3_file* f, int remove) {
    Handle* h = Of(f);
    base::MutexLock lock(&h->vfs->mutex_);
    File& file = **h->file;
    if (h->epoch != h->vfs->epoch_) return SQLITE_OK;
    for (int slot = 0; slot < kShmLocks; ++slot) {
      const unsigned mask = 1u << slot;
      if ((h->shm_shared & mask) != 0) SetShm(h, file, slot, false, false);
      if ((h->shm_exclusive & mask) != 0) SetShm(h, file, slot, false, true);
    }
    if (remove != 0) file.shm.clear();
    return SQLITE_OK;
  }

  static bool Dead(const Handle* h) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return h->vfs->off_ || h->epoch != h->vfs->epoch_;
  }

  static int VfsOpen(sqlite3_vfs* vfs, const char* path, sqlite3_file* f, int flags, int* out_flags) {
    static constexpr sqlite3_io_methods kMethods = {2,
                                                    &Close,
                                                    &Read,
                                                    &Write,
                                                    &Truncate,
                                                    &Sync,
                                                    &FileSize,
                                                    &Lock,
                                                    &Unlock,
                                                    &CheckReservedLock,
                                                    &FileControl,
                                                    &SectorSize,
                                                    &DeviceCharacteristics,
                                                    &ShmMap,
                                                    &ShmLock,
                                                    &ShmBarrier,
                                                    &ShmUnmap,
                                                    nullptr,
                                                    nullptr};
    f->pMethods = nullptr;
    const int code = Of(vfs)->Open(path, flags, Of(f), out_flags);
    if (code == SQLITE_OK) f->pMethods = &kMethods;
    return code;
  }

  static int VfsDelete(sqlite3_vfs* vfs, const char* path, int sync) { return Of(vfs)->Remove(path, sync != 0); }

  static int VfsAccess(sqlite3_vfs* vfs, const char* path, int, int* result) {
    *result = Of(vfs)->Exists(path) ? 1 : 0;
    return SQLITE_OK;
  }

  static int VfsFullPathname(sqlite3_vfs*, const char* path, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", path);
    return SQLITE_OK;
  }

  static int VfsRandomness(sqlite3_vfs* vfs, int size, char* out) {
    base::MutexLock lock(&Of(vfs)->mutex_);
    for (int i = 0; i < size; ++i) out[i] = static_cast<char>(Of(vfs)->random_.UniformInt(256));
    return size;
  }

  static int VfsSleep(sqlite3_vfs*, int microseconds) { return microseconds; }
  static int VfsCurrentTime(sqlite3_vfs*, double* julian) {
    *julian = 2'460'000.5;
    return SQLITE_OK;
  }
  static int VfsGetLastError(sqlite3_vfs*, int, char*) { return SQLITE_OK; }
};

PowerCutVfs::PowerCutVfs(uint64_t seed)
    : name_(UniqueName(this)), vfs_(std::make_unique<sqlite3_vfs>()), random_(seed, "power cut") {
  constexpr int kMaxPath = 1024;
  *vfs_ = {};
  vfs_->iVersion = 1;
  vfs_->szOsFile = sizeof(Handle);
  vfs_->mxPathname = kMaxPath;
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->xOpen = &Methods::VfsOpen;
  vfs_->xDelete = &Methods::VfsDelete;
  vfs_->xAccess = &Methods::VfsAccess;
  vfs_->xFullPathname = &Methods::VfsFullPathname;
  vfs_->xRandomness = &Methods::VfsRandomness;
  vfs_->xSleep = &Methods::VfsSleep;
  vfs_->xCurrentTime = &Methods::VfsCurrentTime;
  vfs_->xGetLastError = &Methods::VfsGetLastError;
  LUTHIER_CHECK(sqlite3_vfs_register(vfs_.get(), /*makeDflt=*/0) == SQLITE_OK);
}

PowerCutVfs::~PowerCutVfs() {
  sqlite3_vfs_unregister(vfs_.get());
}

int PowerCutVfs::Open(const char* path, int flags, Handle* handle, int* out_flags) {
  base::MutexLock lock(&mutex_);
  if (off_) return SQLITE_IOERR;
  std::shared_ptr<File> file;
  if (path == nullptr) {
    file = std::make_shared<File>();  // A temporary file, without a name.
    file->exists = true;
  } else {
    std::shared_ptr<File>& named = files_[path];
    if (named == nullptr) named = std::make_shared<File>();
    if (!named->exists) {
      if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
      named->exists = true;
      named->live.clear();
      named->dirty.clear();
      named->lost.clear();
    }
    file = named;
  }
  handle->vfs = this;
  handle->file = new std::shared_ptr<File>(std::move(file));
  handle->epoch = epoch_;
  handle->level = SQLITE_LOCK_NONE;
  handle->remove_on_close = (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
  handle->shm_shared = 0;
  handle->shm_exclusive = 0;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int PowerCutVfs::Remove(const std::string& path, bool sync_directory) {
  base::MutexLock lock(&mutex_);
  if (!AdmitChange()) return SQLITE_IOERR_DELETE;
  const auto found = files_.find(path);
  if (found == files_.end() || !found->second->exists) return SQLITE_IOERR_DELETE_NOENT;
  // Who has it open keeps the old bytes; the name begins anew, remembering what the disk still has.
  auto fresh = std::make_shared<File>();
  fresh->durable_exists = found->second->durable_exists;
  fresh->durable = found->second->durable;
  found->second = std::move(fresh);
  if (sync_directory && !ignore_syncs_) SyncDirectory();
  return SQLITE_OK;
}

bool PowerCutVfs::Exists(const std::string& path) {
  base::MutexLock lock(&mutex_);
  const auto found = files_.find(path);
  return found != files_.end() && found->second->exists;
}

bool PowerCutVfs::Admit(Operation operation, int* code) {
  if (!fault_ || fault_->operation != operation || fault_happened_) return true;
  if (--fault_->at > 0) return true;
  fault_happened_ = true;
  *code = fault_->code;
  return false;
}

bool PowerCutVfs::AdmitChange() {
  if (off_) return false;
  ++changes_;
  if (!cut_at_ || --*cut_at_ > 0) return true;
  off_ = true;
  return random_.UniformInt(2) == 0;  // This last one may yet have reached the drive.
}

void PowerCutVfs::SyncDirectory() {
  for (auto& [path, file] : files_) {
    if (!file->exists) file->durable.clear();
    file->durable_exists = file->exists;
  }
}

// Decides what the disk has of one file after a cut.
void PowerCutVfs::Survive(File& file) {
  const bool renamed = file.exists != file.durable_exists;
  const bool exists = renamed ? random_.UniformInt(2) == 0 : file.exists;
  std::vector<char> bytes = file.durable;
  if (exists && file.exists) {
    // Drives that had written back everything, or nothing, are as likely as those in between.
    constexpr uint64_t kNothing = 0, kEverything = 1, kKinds = 4;
    const uint64_t kind = random_.UniformInt(kKinds);
    const double keep = kind == kNothing ? 0.0 : kind == kEverything ? 1.0 : random_.Uniform();
    const bool new_size = random_.Uniform() < keep;
    const size_t size = new_size ? file.live.size() : file.durable.size();
    for (const size_t s : file.dirty) {
      if (random_.Uniform() >= keep) continue;
      File::CopySector(file.live, s, &bytes);
    }
    if (file.live.size() < file.durable.size() || bytes.size() < size) bytes.resize(size);
  }
  file = File();
  file.exists = file.durable_exists = exists;
  if (exists) {
    file.live = bytes;
    file.durable = std::move(bytes);
  }
}

void PowerCutVfs::CutAt(int64_t n) {
  base::MutexLock lock(&mutex_);
  cut_at_ = n;
}

bool PowerCutVfs::is_off() {
  base::MutexLock lock(&mutex_);
  return off_;
}

void PowerCutVfs::Restart() {
  base::MutexLock lock(&mutex_);
  for (auto& [path, file] : files_) {
    // Dead handles keep the old object; the disk goes on with a new one.
    auto survivor = std::make_shared<File>(File());
    survivor->exists = file->exists;
    survivor->live = file->live;
    survivor->durable_exists = file->durable_exists;
    survivor->durable = file->durable;
    survivor->dirty = file->dirty;
    Survive(*survivor);
    file = std::move(survivor);
  }
  ++epoch_;
  off_ = false;
  cut_at_.reset();
  fault_.reset();
}

void PowerCutVfs::Arm(const Fault& fault) {
  base::MutexLock lock(&mutex_);
  fault_ = fault;
  fault_happened_ = false;
}

bool PowerCutVfs::fault_happened() {
  base::MutexLock lock(&mutex_);
  return fault_happened_;
}

void PowerCutVfs::IgnoreSyncs() {
  base::MutexLock lock(&mutex_);
  ignore_syncs_ = true;
}

int64_t PowerCutVfs::changes() {
  base::MutexLock lock(&mutex_);
  return changes_;
}

PowerCutVfs::Image PowerCutVfs::Save() {
  base::MutexLock lock(&mutex_);
  Image image;
  for (const auto& [path, file] : files_) {
    if (file->exists) image[path] = file->live;
  }
  return image;
}

void PowerCutVfs::Load(const Image& image) {
  base::MutexLock lock(&mutex_);
  files_.clear();
  ++epoch_;
  for (const auto& [path, bytes] : image) {
    auto file = std::make_shared<File>();
    file->exists = file->durable_exists = true;
    file->live = file->durable = bytes;
    files_[path] = std::move(file);
  }
}

}  // namespace luthier::testing
