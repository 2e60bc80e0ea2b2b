#ifndef LUTHIER_WORKER_OBJECTIVES_OUTPUT_H_
#define LUTHIER_WORKER_OBJECTIVES_OUTPUT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace luthier::worker {

// A line of a program's text. A carriage return ends one, too, since a terminal would overwrite it with what follows.
struct TextLine {
  absl::string_view text;   // Without its end.
  int64_t number = 1;       // Counted from 1 by newlines alone, as editors do.
  bool cut = false;         // True: it is longer than the limit, and `text` is its beginning.
  bool overwrites = false;  // True: it began after a carriage return, as the text of a progress bar does.
  bool ended = true;        // False: the stream ended within it.
};

// Cuts a stream of bytes into lines in bounded memory. Not thread-safe.
class LineSplitter {
 public:
  // `on_line` gets the lines in order, of each at most `limit` bytes; empty ones that a carriage return ends are left
  // out. The view is valid during the call.
  LineSplitter(size_t limit, std::function<void(const TextLine&)> on_line);

  void Add(absl::string_view bytes);
  // Passes on the last line, if nothing ended it.
  void Finish();

 private:
  void Flush(char end);

  const size_t limit_;
  const std::function<void(const TextLine&)> on_line_;
  std::string line_;
  int64_t number_ = 1;
  bool truncated_ = false;
  bool overwrites_ = false;
};

// Keeps the last bytes of a stream. Not thread-safe.
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
