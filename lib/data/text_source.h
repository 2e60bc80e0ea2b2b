#ifndef LUTHIER_LIB_DATA_TEXT_SOURCE_H_
#define LUTHIER_LIB_DATA_TEXT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_root.h"

namespace luthier::data {

// Guards against files that are not what they seem, such as a small compressed file that expands for ever.
struct TextLimits {
  int64_t max_line_bytes = int64_t{64} << 20;
  int64_t max_total_bytes = int64_t{16} << 30;  // After decompression.
  // Not a limit of the text: readers return CANCELLED once it is raised.
  base::StopToken stop;
};

// Yields chunks of uncompressed bytes. Append adds at least one byte to *out, or returns false if the input has ended.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual absl::StatusOr<bool> Append(std::string* out) = 0;
};

// Reads from `fd` (position 0) and expands gzip and xz, recognised by content, with all members. Returns DATA_LOSS for
// damaged or cut-off input, RESOURCE_EXHAUSTED if xz needs over 80 MiB, and INVALID_ARGUMENT for a result over 1 MiB
// and 1,000 times the size. `name` is used in errors.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenBytes(UniqueFd fd, const std::string& name);

// Yields `bytes` unchanged.
std::unique_ptr<ByteSource> BytesOf(std::string bytes);

// Reads the lines of text of a plain, gzip or xz file. Not thread-safe.
class LineReader {
 public:
  LineReader(std::unique_ptr<ByteSource> source, std::string name, TextLimits limits = {});

  // Returns the next line without its end, or nothing at the end of the input. A line ends with "\n" or "\r\n", or with
  // "\r" in a text without "\n" that is no longer than a line may be; a byte-order mark at the start is dropped. The
  // view is valid until the next call. Returns INVALID_ARGUMENT ("name:line: ...") for a line above the limit or a
  // control character (so for binary data), the source's DATA_LOSS, and CANCELLED when stopped.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  int64_t line_number() const { return line_number_; }  // Number of the line last returned, from 1.
  const std::string& name() const { return name_; }
  const TextLimits& limits() const { return limits_; }

 private:
  std::unique_ptr<ByteSource> source_;
  const std::string name_;
  const TextLimits limits_;
  std::string buffer_;
  size_t begin_ = 0;
  bool ended_ = false;
  int64_t line_number_ = 0;
  int64_t total_ = 0;
};

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_TEXT_SOURCE_H_
