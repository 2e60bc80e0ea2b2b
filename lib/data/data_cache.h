#ifndef LUTHIER_LIB_DATA_DATA_CACHE_H_
#define LUTHIER_LIB_DATA_DATA_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"

namespace luthier::data {

// Keeps values on disk that were made from data files (parsed rows, encoded sequences). A worker that starts anew maps
// an entry instead of parsing text. Each entry is one file. The workers of one machine may share the directory.
//
// An entry is used only if it is whole (a checksum over all of it), of this version, of the same key, and of the source
// as it is now: the same file (device, inode, size, times of modification and of change), or a file of the same size
// and SHA-256. Nothing is kept of a source that changed within the last two seconds, or while it was read: it might
// have changed again without a new time. Entries of other users are not trusted. Any other entry is ignored and made
// anew, with a line in the log.
//
// Entries are written beside their place and renamed, so readers see a whole entry or none, and a mapped entry stays
// while it is used, also when it is replaced. Nothing here fails a trial: an entry that cannot be written is logged.
// Reading and writing poll `stop` at the pace of lib/base/pace.h. CANCELLED is their only error: a file that was begun
// is removed.
// Const, any thread, any number of processes.
class DataCache {
 public:
  struct Options {
    int64_t max_bytes = int64_t{4} << 30;  // Limit of all entries together; those unused for longest go first.
    // Smaller sources are parsed faster than it matters.
    int64_t min_source_bytes = int64_t{64} << 10;
    // Sources that changed within this time are not kept. File systems keep times to two seconds at worst.
    int64_t settle_nanoseconds = 2'000'000'000;
  };

  // A mapped entry, and a reader of its contents, which must not outlive it.
  class Entry {
   public:
    Entry(Entry&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), size_(other.size_), reader_(std::move(other.reader_)) {}
    Entry& operator=(Entry&&) = delete;
    ~Entry();
    base::CheckpointReader& reader() { return *reader_; }

   private:
    friend class DataCache;
    Entry(void* data, size_t size) : data_(data), size_(size) {}
    void* data_;
    size_t size_;
    std::optional<base::CheckpointReader> reader_;
  };

  // Makes the directory if need be. Returns FAILED_PRECONDITION if it can't be made or written to.
  static absl::StatusOr<DataCache> Open(const std::string& directory, const Options& options);

  // Identifies a data file and the state it is in.
  struct Source {
    uint64_t device = 0, inode = 0;
    int64_t size = 0, modified = 0, changed = 0;  // Bytes; nanoseconds.
    bool settled = false;                         // Has not changed for settle_nanoseconds.
  };
  // Returns the source's state; call it before the file is read. Returns std::nullopt if the file is too small or not a
  // regular file: nothing shall be kept of it.
  std::optional<Source> Look(int source_fd) const;

  // Returns, for the key, the state of a further file that the contents depend on (the labels of images, say), or "" if
  // no state can be relied on; nothing shall be kept then.
  std::string StateOf(int further_fd) const;

  // Returns the entry of `key` for this source, if there is a good one. `key` names everything that the contents depend
  // on beside the source: its name, options, version. The file's position is left alone. The entry's reader polls
  // `stop`, too.
  absl::StatusOr<std::optional<Entry>> Find(const std::string& key, int source_fd, const Source& source,
                                            const base::StopToken& stop = {}) const;

  // Keeps the values that `write` writes, which were made from the source as it has been read since Look.
  absl::Status Put(const std::string& key, int source_fd, const Source& source,
                   absl::FunctionRef<void(base::CheckpointWriter*)> write, const base::StopToken& stop = {}) const;

  const std::string& directory() const { return directory_; }

 private:
  DataCache(std::string directory, const Options& options) : directory_(std::move(directory)), options_(options) {}
  std::string PathOf(const std::string& key) const;
  bool Settled(const Source& source) const;
  void Shrink() const;

  std::string directory_;
  Options options_;
};

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_DATA_CACHE_H_
