#include "server/storage/written_file.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/storage/page_sums.h"
#include "server/storage/sql.h"

namespace luthier::storage {
namespace {

// Offsets are those of SQLite's file formats: https://www.sqlite.org/fileformat2.html and walformat.html.
constexpr int kHeaderBytes = 100;
constexpr int kIndexRegionBytes = 32768;
constexpr int kIndexHeaderBytes = 48;
constexpr int kIndexFrames = 16;    // Number of valid frames, in the machine's byte order, as is the checksum.
constexpr int kIndexPages = 20;     // Number of pages of the database with these frames; 0: there were none yet.
constexpr int kIndexChecksum = 24;  // Two words: checksum of the newest frame.
constexpr int kIndexSalts = 32;     // Eight bytes as they stand in the WAL.
constexpr int kSaltBytes = 8;
constexpr int kWalHeaderBytes = 32;
constexpr int kWalHeaderSalts = 16;
constexpr int kFrameHeaderBytes = 24;
constexpr int kFrameSalts = 8;
constexpr int kFrameChecksum = 16;

using IndexHeader = std::array<unsigned char, kIndexHeaderBytes>;

uint32_t BigEndian(const unsigned char* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

uint32_t Native(const unsigned char* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

sqlite3_file* FileOf(sqlite3* db, int what) {
  sqlite3_file* file = nullptr;
  const int code = sqlite3_file_control(db, "main", what, static_cast<void*>(&file));
  return code == SQLITE_OK && file != nullptr && file->pMethods != nullptr ? file : nullptr;
}

// False: there is no index, or a writer is just changing it. SQLite writes the second copy of the header first, so
// whoever reads the first one first and finds both equal has read a whole one.
bool ReadIndex(sqlite3_file* database, IndexHeader* header) {
  if (database->pMethods->iVersion < 2) return false;
  void volatile* memory = nullptr;
  if (database->pMethods->xShmMap(database, 0, kIndexRegionBytes, 0, &memory) != SQLITE_OK) return false;
  if (memory == nullptr) return false;
  const auto* const bytes = static_cast<const volatile unsigned char*>(memory);
  for (size_t i = 0; i < header->size(); ++i) (*header)[i] = bytes[i];
  database->pMethods->xShmBarrier(database);
  bool whole = true;
  for (size_t i = 0; i < header->size(); ++i) whole = whole && (*header)[i] == bytes[kIndexHeaderBytes + i];
  return whole;
}

// Returns SQLITE_IOERR_SHORT_READ if the file ends before.
template <size_t kBytes>
int ReadAt(sqlite3_file* file, std::array<unsigned char, kBytes>* bytes, int64_t offset) {
  return file->pMethods->xRead(file, bytes->data(), kBytes, offset);
}

// Returns SQLITE_IOERR_SHORT_READ if the newest frame is not what the index says.
int FindFrames(sqlite3_file* wal, const IndexHeader& index) {
  const int64_t frames = Native(index.data() + kIndexFrames);
  if (frames == 0) return SQLITE_OK;
  const int64_t newest = kWalHeaderBytes + (frames - 1) * (kFrameHeaderBytes + kPageBytes);
  sqlite3_int64 size = 0;
  int code = wal->pMethods->xFileSize(wal, &size);
  if (code == SQLITE_OK && size < newest + kFrameHeaderBytes + kPageBytes) code = SQLITE_IOERR_SHORT_READ;
  std::array<unsigned char, kWalHeaderBytes> head{};
  std::array<unsigned char, kFrameHeaderBytes> frame{};
  if (code == SQLITE_OK) code = ReadAt(wal, &head, 0);
  if (code == SQLITE_OK) code = ReadAt(wal, &frame, newest);
  if (code != SQLITE_OK) return code;
  const unsigned char* const salts = index.data() + kIndexSalts;
  const unsigned char* const checksum = index.data() + kIndexChecksum;
  const bool same = std::memcmp(head.data() + kWalHeaderSalts, salts, kSaltBytes) == 0 &&
                    std::memcmp(frame.data() + kFrameSalts, salts, kSaltBytes) == 0 &&
                    BigEndian(frame.data() + kFrameChecksum) == Native(checksum) &&
                    BigEndian(frame.data() + kFrameChecksum + 4) == Native(checksum + 4);
  return same ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

absl::Status Changed(sqlite3* db, const char* suffix, int code) {
  if (code != SQLITE_IOERR_SHORT_READ) return ToStatus(code, nullptr);
  return absl::DataLossError(absl::StrCat(
      sqlite3_db_filename(db, "main"), suffix,
      " was cut or overwritten while the server ran, so what is written there can't be read again; let no other "
      "program touch the data directory, look with luthier admin doctor what is whole, and start again or restore a "
      "backup into a new directory (luthier admin restore)"));
}

}  // namespace

absl::Status WrittenFile::Check() {
  absl::Status status = CheckDatabase();
  return status.ok() ? CheckWal() : status;
}

absl::Status WrittenFile::CheckDatabase() {
  sqlite3_file* const file = FileOf(db_, SQLITE_FCNTL_FILE_POINTER);
  if (file == nullptr) return absl::OkStatus();
  sqlite3_int64 size = 0;
  std::array<unsigned char, kHeaderBytes> header{};
  constexpr char kMagic[] = "SQLite format 3";
  int code = file->pMethods->xFileSize(file, &size);
  IndexHeader index;
  if (code == SQLITE_OK && size < bytes_ && ReadIndex(file, &index)) {
    // A checkpoint makes the file shorter where a VACUUM of the start was still in the WAL.
    const int64_t pages = Native(index.data() + kIndexPages);
    if (pages == 0 || size < pages * kPageBytes) code = SQLITE_IOERR_SHORT_READ;
  }
  if (code == SQLITE_OK) code = ReadAt(file, &header, 0);
  if (code == SQLITE_OK && std::memcmp(header.data(), kMagic, sizeof(kMagic)) != 0) code = SQLITE_IOERR_SHORT_READ;
  if (code != SQLITE_OK) return Changed(db_, "", code);
  bytes_ = size;
  return absl::OkStatus();
}

absl::Status WrittenFile::CheckWal() {
  sqlite3_file* const database = FileOf(db_, SQLITE_FCNTL_FILE_POINTER);
  sqlite3_file* const wal = FileOf(db_, SQLITE_FCNTL_JOURNAL_POINTER);
  IndexHeader index;
  if (database == nullptr || wal == nullptr || !ReadIndex(database, &index)) return absl::OkStatus();
  for (;;) {
    const int code = FindFrames(wal, index);
    if (code == SQLITE_OK) return absl::OkStatus();
    // Another process may have emptied the WAL into the database meanwhile, as SQLite allows.
    IndexHeader again;
    if (!ReadIndex(database, &again)) return absl::OkStatus();
    if (again == index) return Changed(db_, "-wal", code);
    index = again;
  }
}

}  // namespace luthier::storage
