#include "lib/data/text_source.h"

#include <lzma.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/memory_limit.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::data {
namespace {

constexpr size_t kChunk = size_t{1} << 16;

bool IsControl(char byte) {
  const auto c = static_cast<unsigned char>(byte);
  return (c < 0x20 && c != '\t' && c != '\r' && c != '\f' && c != '\v') || c == 0x7f;
}

absl::Status CutOff(const std::string& name, const char* format) {
  return absl::DataLossError(absl::StrCat(name, ": the ", format, " data end too early; the file is cut off"));
}
absl::Status Damaged(const std::string& name, const char* format, const std::string& why) {
  return absl::DataLossError(absl::StrCat(name, ": the ", format, " data are damaged (", why, ")"));
}

// Size up to which compressed data may expand by any factor. A text of one byte again and again is a thousandth in gzip
// and a 7,000th in xz; a table of a thousand columns with a single 1 in each row is a 350th.
constexpr int64_t kFreeBytes = int64_t{1} << 20;
constexpr int64_t kMaxRatio = 1000;
// xz -9 needs 65 MiB; a header may ask for 4 GiB, and the decoder takes at once what it asks for.
constexpr uint64_t kXzMemory = uint64_t{80} << 20;

// Returns the limit of expanded text: a quarter of the memory of this process, as a cell of two bytes takes eight in
// memory. The limit does not apply to plain files, which are as large as they look.
int64_t MostExpanded() {
  static const int64_t most = base::DefaultMemoryLimit().bytes / 4;
  return most > 0 ? most : std::numeric_limits<int64_t>::max();
}

absl::Status CheckExpansion(const std::string& name, const char* format, int64_t in, int64_t out) {
  if (out > MostExpanded()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the ", format, " data expand to more than ", MostExpanded() >> 20,
                     " MiB of text, a quarter of the memory for this process (", base::DefaultMemoryLimit().source,
                     "); if they are what they should be, name the expanded file, or use a machine with more memory"));
  }
  if (out <= kFreeBytes || out / kMaxRatio <= in) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": the ", format, " data expand to more than ", kMaxRatio,
                                                 " times their size (", out, " bytes from ", in,
                                                 "); if they are what they should be, name the expanded file"));
}

class PlainSource final : public ByteSource {
 public:
  PlainSource(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}

  absl::StatusOr<bool> Append(std::string* out) override {
    const size_t before = out->size();
    out->resize(before + kChunk);
    ssize_t count = 0;
    do {
      count = read(fd_.get(), out->data() + before, kChunk);
    } while (count < 0 && errno == EINTR);
    const int error = errno;
    out->resize(before + (count > 0 ? static_cast<size_t>(count) : 0));
    if (count < 0) return absl::ErrnoToStatus(error, absl::StrCat(name_, ": cannot be read"));
    return count > 0;
  }

 private:
  UniqueFd fd_;
  const std::string name_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<bool> Append(std::string* out) override {
    const absl::string_view part = absl::string_view(bytes_).substr(given_, kChunk);
    out->append(part.data(), part.size());
    given_ += part.size();
    return !part.empty();
  }

 private:
  const std::string bytes_;
  size_t given_ = 0;
};

class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> source, std::string name)
      : source_(std::move(source)), name_(std::move(name)) {
    ok_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }
  ~GzipSource() override {
    if (ok_) inflateEnd(&stream_);
  }

  absl::StatusOr<bool> Append(std::string* out) override {
    if (!ok_) return absl::ResourceExhaustedError(absl::StrCat(name_, ": no memory to expand gzip data"));
    const size_t before = out->size();
    while (out->size() == before) {
      if (stream_.avail_in == 0 && !input_ended_) {
        input_.clear();
        LUTHIER_ASSIGN_OR_RETURN(const bool more, source_->Append(&input_));
        input_ended_ = !more;
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(input_.size());
        in_ += static_cast<int64_t>(input_.size());
      }
      if (stream_.avail_in == 0 && input_ended_) {
        if (!member_done_) return CutOff(name_, "gzip");
        return false;
      }
      if (member_done_) {  // A further member follows.
        if (inflateReset(&stream_) != Z_OK) return Damaged(name_, "gzip", "cannot start the next member");
        member_done_ = false;
      }
      out->resize(before + kChunk);
      stream_.next_out = reinterpret_cast<Bytef*>(out->data() + before);
      stream_.avail_out = static_cast<uInt>(kChunk);
      const int code = inflate(&stream_, Z_NO_FLUSH);
      out->resize(before + kChunk - stream_.avail_out);
      out_ += static_cast<int64_t>(out->size() - before);
      LUTHIER_RETURN_IF_ERROR(CheckExpansion(name_, "gzip", in_ - int64_t{stream_.avail_in}, out_));
      if (code == Z_STREAM_END) {
        member_done_ = true;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        return Damaged(name_, "gzip", stream_.msg != nullptr ? stream_.msg : absl::StrCat("zlib error ", code));
      }
    }
    return true;
  }

 private:
  std::unique_ptr<ByteSource> source_;
  const std::string name_;
  std::string input_;
  int64_t in_ = 0, out_ = 0;  // Bytes read and made so far.
  z_stream stream_ = {};
  bool ok_ = false;
  bool input_ended_ = false;
  bool member_done_ = false;
};

class XzSource final : public ByteSource {
 public:
  XzSource(std::unique_ptr<ByteSource> source, std::string name) : source_(std::move(source)), name_(std::move(name)) {
    ok_ = lzma_stream_decoder(&stream_, kXzMemory, LZMA_CONCATENATED) == LZMA_OK;
  }
  ~XzSource() override { lzma_end(&stream_); }

  absl::StatusOr<bool> Append(std::string* out) override {
    if (!ok_) return absl::ResourceExhaustedError(absl::StrCat(name_, ": no memory to expand xz data"));
    const size_t before = out->size();
    while (out->size() == before && !done_) {
      if (stream_.avail_in == 0 && !input_ended_) {
        input_.clear();
        LUTHIER_ASSIGN_OR_RETURN(const bool more, source_->Append(&input_));
        input_ended_ = !more;
        stream_.next_in = reinterpret_cast<const uint8_t*>(input_.data());
        stream_.avail_in = input_.size();
        in_ += static_cast<int64_t>(input_.size());
      }
      out->resize(before + kChunk);
      stream_.next_out = reinterpret_cast<uint8_t*>(out->data() + before);
      stream_.avail_out = kChunk;
      const lzma_ret code = lzma_code(&stream_, input_ended_ ? LZMA_FINISH : LZMA_RUN);
      out->resize(before + kChunk - stream_.avail_out);
      out_ += static_cast<int64_t>(out->size() - before);
      LUTHIER_RETURN_IF_ERROR(CheckExpansion(name_, "xz", in_ - static_cast<int64_t>(stream_.avail_in), out_));
      if (code == LZMA_STREAM_END) {
        done_ = true;
      } else if (code == LZMA_BUF_ERROR && input_ended_) {
        return CutOff(name_, "xz");
      } else if (code == LZMA_MEMLIMIT_ERROR) {
        return absl::ResourceExhaustedError(
            absl::StrCat(name_, ": expanding the xz data takes ", (lzma_memusage(&stream_) >> 20) + 1,
                         " MiB of memory, and the limit is ", kXzMemory >> 20,
                         "; compress them with xz -9 or less, without a larger dictionary"));
      } else if (code != LZMA_OK && code != LZMA_BUF_ERROR) {
        return Damaged(name_, "xz", absl::StrCat("lzma error ", static_cast<int>(code)));
      }
    }
    return out->size() > before;
  }

 private:
  std::unique_ptr<ByteSource> source_;
  const std::string name_;
  std::string input_;
  int64_t in_ = 0, out_ = 0;  // Bytes read and made so far.
  lzma_stream stream_ = LZMA_STREAM_INIT;
  bool ok_ = false;
  bool input_ended_ = false;
  bool done_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteSource>> OpenBytes(UniqueFd fd, const std::string& name) {
  unsigned char magic[6] = {};
  const ssize_t count = pread(fd.get(), magic, sizeof(magic), 0);
  if (count < 0) return absl::ErrnoToStatus(errno, absl::StrCat(name, ": cannot be read"));
  std::unique_ptr<ByteSource> plain = std::make_unique<PlainSource>(std::move(fd), name);
  if (count >= 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
    return std::unique_ptr<ByteSource>(std::make_unique<GzipSource>(std::move(plain), name));
  }
  constexpr unsigned char kXz[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
  if (count == 6 && std::memcmp(magic, kXz, 6) == 0) {
    return std::unique_ptr<ByteSource>(std::make_unique<XzSource>(std::move(plain), name));
  }
  return plain;
}

std::unique_ptr<ByteSource> BytesOf(std::string bytes) {
  return std::make_unique<MemorySource>(std::move(bytes));
}

LineReader::LineReader(std::unique_ptr<ByteSource> source, std::string name, TextLimits limits)
    : source_(std::move(source)), name_(std::move(name)), limits_(std::move(limits)) {}

absl::StatusOr<std::optional<absl::string_view>> LineReader::Next() {
  LUTHIER_RETURN_IF_ERROR(limits_.stop.Poll());
  size_t scanned = begin_;
  size_t end = std::string::npos;
  while ((end = buffer_.find('\n', scanned)) == std::string::npos && !ended_) {
    if (begin_ > 0) {
      buffer_.erase(0, begin_);
      begin_ = 0;
    }
    scanned = buffer_.size();
    if (static_cast<int64_t>(scanned) > limits_.max_line_bytes) break;
    LUTHIER_ASSIGN_OR_RETURN(const bool more, source_->Append(&buffer_));
    LUTHIER_RETURN_IF_ERROR(limits_.stop.Poll());
    ended_ = !more;
    total_ += static_cast<int64_t>(buffer_.size() - scanned);
    if (total_ > limits_.max_total_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ": has more than ", limits_.max_total_bytes, " bytes of text after decompression"));
    }
  }
  if (end == std::string::npos && ended_ && line_number_ == 0) {
    // Spreadsheets can save files with such line ends.
    std::replace(buffer_.begin(), buffer_.end(), '\r', '\n');
    end = buffer_.find('\n');
  }
  const bool found = end != std::string::npos;
  if (!found && ended_ && begin_ == buffer_.size()) return std::optional<absl::string_view>();
  ++line_number_;
  if (!found) end = buffer_.size();
  if (static_cast<int64_t>(end - begin_) > limits_.max_line_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_number_, ": the line is longer than ",
                                                   limits_.max_line_bytes, " bytes; is this a text file?"));
  }
  absl::string_view line(buffer_.data() + begin_, end - begin_);
  begin_ = end + (found ? 1 : 0);
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line_number_ == 1 && line.size() >= 3 && line.substr(0, 3) == "\xEF\xBB\xBF") line.remove_prefix(3);
  size_t control = line.size();
  const auto find_control = [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last) && control == line.size(); ++i) {
      if (IsControl(line[i])) control = i;
    }
  };
  LUTHIER_RETURN_IF_ERROR(base::InPieces(static_cast<int64_t>(line.size()), 1, limits_.stop, find_control));
  if (control < line.size()) {
    return absl::InvalidArgumentError(absl::StrFormat("%s:%d:%d: byte 0x%02x is not text; is this a data file?", name_,
                                                      line_number_, control + 1,
                                                      static_cast<unsigned char>(line[control])));
  }
  return std::optional<absl::string_view>(line);
}

}  // namespace luthier::data
