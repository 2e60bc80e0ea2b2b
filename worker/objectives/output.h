#ifndef LUTHIER_WORKER_OBJECTIVES_OUTPUT_H_
#define LUTHIER_WORKER_OBJECTIVES_OUTPUT_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace luthier::worker {

// Cuts a stream of bytes into lines in bounded memory. Not thread-safe.
class LineSplitter {
 public:
  // `on_line(line, truncated)`: without its newline; of a line longer than `limit` bytes only the first `limit`, with
  // truncated set. The view is valid during the call.
  LineSplitter(size_t limit, std::function<void(absl::string_view, bool)> on_line);

  void Add(absl::string_view bytes);
  // The last line, if it had no newline.
  void Finish();

 private:
  void Flush();

  const size_t limit_;
  const std::function<void(absl::string_view, bool)> on_line_;
  std::string line_;
  bool truncated_ = false;
};

// The last bytes of a stream. Not thread-safe.
class Tail {
 public:
  explicit Tail(size_t limit) : limit_(limit) {}
  void Add(absl::string_view bytes);
  absl::string_view bytes() const;

 private:
  const size_t limit_;
  std::string bytes_;  // At most 2 * limit_, so that trimming costs O(1) a byte.
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_OUTPUT_H_
