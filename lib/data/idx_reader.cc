#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/data/growth.h"
#include "lib/data/readers.h"

namespace luthier::data {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int64_t kMaxBytes = int64_t{16} << 30;

// An array of bytes, read from its beginning to its end. Only the requested bytes and a chunk of the source are held.
class ArrayReader {
 public:
  // `source` and `name` must outlive this.
  ArrayReader(ByteSource& source, const std::string& name, const base::StopToken& stop)
      : source_(source), name_(name), stop_(stop) {}

  // Reads the header; size() is known then.
  absl::Status Open(int dimensions) {
    LUTHIER_RETURN_IF_ERROR(Fill(4));
    if (buffer_.empty()) return absl::InvalidArgumentError(absl::StrCat(name_, ": is empty"));
    // A file that ends within its header may still be told to be another kind of file.
    if (buffer_.size() >= 2 && (Byte(0) != 0 || Byte(1) != 0)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: is no IDX file: it begins with the bytes %02x %02x", name_, Byte(0), Byte(1)));
    }
    if (buffer_.size() >= 3 && Byte(2) != kUnsignedByte) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: holds numbers of type 0x%02x; only unsigned bytes (0x08) are read", name_, Byte(2)));
    }
    if (buffer_.size() >= 4 && Byte(3) != dimensions) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: has %d dimensions, not %d; %s", name_, Byte(3), dimensions,
                          dimensions == 1 ? "labels are a list" : "name the file of the images"));
    }
    const size_t begin = 4 + 4 * static_cast<size_t>(dimensions);
    LUTHIER_RETURN_IF_ERROR(Fill(begin));
    if (buffer_.size() < begin) return CutOff();
    int64_t product = 1;
    for (size_t at = 4; at < begin; at += 4) {
      int64_t size = 0;
      for (size_t k = 0; k < 4; ++k) size = 256 * size + Byte(at + k);
      size_.push_back(size);
      if (size > 0 && product > kMaxBytes / size) {
        return absl::InvalidArgumentError(absl::StrCat(name_, ": claims to hold more than ", kMaxBytes, " bytes"));
      }
      product *= size;
    }
    whole_ = static_cast<int64_t>(begin) + product;
    at_ = begin;
    return absl::OkStatus();
  }

  const std::vector<int64_t>& size() const { return size_; }

  // Returns the next `count` bytes, valid until the next call, or DATA_LOSS if there are fewer.
  absl::StatusOr<absl::string_view> Take(int64_t count) {
    LUTHIER_RETURN_IF_ERROR(stop_.Poll());
    const auto wanted = static_cast<size_t>(count);
    if (buffer_.size() - at_ < wanted) {
      before_ += static_cast<int64_t>(at_);
      buffer_.erase(0, at_);
      at_ = 0;
      LUTHIER_RETURN_IF_ERROR(Fill(wanted));
      if (buffer_.size() < wanted) return CutOff();
    }
    at_ += wanted;
    return absl::string_view(buffer_).substr(at_ - wanted, wanted);
  }

  // Checks that nothing is left after all entries were taken.
  absl::Status Close() {
    LUTHIER_RETURN_IF_ERROR(Fill(at_ + 1));
    if (buffer_.size() == at_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": is longer than the ", whole_, " bytes that its header tells of"));
  }

 private:
  uint8_t Byte(size_t k) const { return static_cast<uint8_t>(buffer_[k]); }
  absl::Status Fill(size_t count) {
    LUTHIER_RETURN_IF_ERROR(stop_.Poll());
    while (buffer_.size() < count && !ended_) {
      LUTHIER_ASSIGN_OR_RETURN(const bool more, source_.Append(&buffer_));
      ended_ = !more;
      LUTHIER_RETURN_IF_ERROR(stop_.Poll());
    }
    return absl::OkStatus();
  }
  absl::Status CutOff() const {
    return absl::DataLossError(absl::StrCat(name_, ": ends after ", before_ + static_cast<int64_t>(buffer_.size()),
                                            " bytes, its header tells of ",
                                            whole_ == 0 ? std::string("more") : absl::StrCat(whole_)));
  }

  ByteSource& source_;
  const std::string& name_;
  const base::StopToken stop_;
  std::string buffer_;
  size_t at_ = 0;       // Number of bytes of the buffer that were taken.
  int64_t before_ = 0;  // Number of bytes that have left the buffer.
  int64_t whole_ = 0;   // Number of bytes of the file; 0 if not known.
  bool ended_ = false;
  std::vector<int64_t> size_;
};

}  // namespace

absl::StatusOr<RawRows> ReadIdx(ByteSource& images, const std::string& name, ByteSource* labels,
                                const std::string& labels_name, const base::StopToken& stop) {
  ArrayReader pixels(images, name, stop);
  LUTHIER_RETURN_IF_ERROR(pixels.Open(3));
  const int64_t rows = pixels.size()[0];
  const int64_t cols = pixels.size()[1] * pixels.size()[2];
  if (rows == 0 || cols == 0) return absl::InvalidArgumentError(absl::StrCat(name, ": has no images, or empty ones"));
  if (cols > kMaxColumns || rows >= kMaxRows) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": has ", rows, " images of ", cols, " pixels: too many"));
  }
  RawRows out;
  out.name = name;
  out.x.rows = rows;
  out.x.cols = static_cast<int32_t>(cols);
  for (int64_t i = 0; i < rows; ++i) {
    LUTHIER_ASSIGN_OR_RETURN(const absl::string_view image, pixels.Take(cols));
    const auto most = static_cast<size_t>(cols);
    LUTHIER_RETURN_IF_ERROR(GrowBy(most, stop, &out.x.column));
    LUTHIER_RETURN_IF_ERROR(GrowBy(most, stop, &out.x.value));
    for (int64_t j = 0; j < cols; ++j) {
      const auto value = static_cast<uint8_t>(image[static_cast<size_t>(j)]);
      if (value == 0) continue;
      out.x.column.push_back(static_cast<int32_t>(j));
      out.x.value.push_back(static_cast<double>(value) / 255.0);
    }
    out.x.row_start.push_back(out.x.nonzeros());
  }
  LUTHIER_RETURN_IF_ERROR(pixels.Close());
  if (labels == nullptr) return out;
  ArrayReader classes(*labels, labels_name, stop);
  LUTHIER_RETURN_IF_ERROR(classes.Open(1));
  if (classes.size()[0] != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels_name, ": has ", classes.size()[0], " labels, but ", name, " has ", rows, " images"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const absl::string_view bytes, classes.Take(rows));
  base::Pace pace(stop);
  for (const char c : bytes) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(32));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &out.label));
    out.label.push_back(absl::StrCat(static_cast<uint8_t>(c)));
  }
  LUTHIER_RETURN_IF_ERROR(classes.Close());
  return out;
}

}  // namespace luthier::data
