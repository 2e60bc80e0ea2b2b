#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/status_macros.h"
#include "lib/learn/readers.h"

namespace luthier::learn {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr int64_t kMaxBytes = int64_t{16} << 30;

// An array of bytes and its sizes.
struct Idx {
  std::vector<int64_t> size;
  std::string bytes;
};

absl::StatusOr<Idx> ReadArray(ByteSource& source, const std::string& name, int dimensions) {
  std::string raw;
  bool more = true;
  int64_t whole = 4;  // Known better once the header is there.
  bool header = false;
  Idx idx;
  while (more) {
    LUTHIER_ASSIGN_OR_RETURN(more, source.Append(&raw));
    if (!header && raw.size() >= 4) {
      const auto byte = [&](size_t k) { return static_cast<uint8_t>(raw[k]); };
      if (byte(0) != 0 || byte(1) != 0) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: is no IDX file: it begins with the bytes %02x %02x", name, byte(0), byte(1)));
      }
      if (byte(2) != kUnsignedByte) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: holds numbers of type 0x%02x; only unsigned bytes (0x08) are read", name, byte(2)));
      }
      if (byte(3) != dimensions) {
        return absl::InvalidArgumentError(
            absl::StrFormat("%s: has %d dimensions, not %d; %s", name, byte(3), dimensions,
                            dimensions == 1 ? "labels are a list" : "name the file of the images"));
      }
      const size_t begin = 4 + 4 * static_cast<size_t>(dimensions);
      if (raw.size() < begin) continue;
      int64_t product = 1;
      for (int d = 0; d < dimensions; ++d) {
        int64_t size = 0;
        for (int k = 0; k < 4; ++k) size = 256 * size + byte(4 + 4 * static_cast<size_t>(d) + static_cast<size_t>(k));
        idx.size.push_back(size);
        if (size > 0 && product > kMaxBytes / size) {
          return absl::InvalidArgumentError(absl::StrCat(name, ": claims to hold more than ", kMaxBytes, " bytes"));
        }
        product *= size;
      }
      whole = static_cast<int64_t>(begin) + product;
      header = true;
    }
    if (header && static_cast<int64_t>(raw.size()) > whole) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": is longer than the ", whole, " bytes that its header tells of"));
    }
  }
  if (raw.empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": is empty"));
  if (!header || static_cast<int64_t>(raw.size()) < whole) {
    return absl::DataLossError(absl::StrCat(name, ": ends after ", raw.size(), " bytes, its header tells of ",
                                            header ? "" : "at least ", whole));
  }
  idx.bytes = raw.substr(4 + 4 * static_cast<size_t>(dimensions));
  return idx;
}

}  // namespace

absl::StatusOr<RawRows> ReadIdx(ByteSource& images, const std::string& name, ByteSource* labels,
                                const std::string& labels_name) {
  LUTHIER_ASSIGN_OR_RETURN(const Idx pixels, ReadArray(images, name, 3));
  const int64_t rows = pixels.size[0];
  const int64_t cols = pixels.size[1] * pixels.size[2];
  if (rows == 0 || cols == 0) return absl::InvalidArgumentError(absl::StrCat(name, ": has no images, or empty ones"));
  if (cols > kMaxColumns || rows >= kMaxRows) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": has ", rows, " images of ", cols, " pixels: too many"));
  }
  RawRows out;
  out.name = name;
  out.x.rows = rows;
  out.x.cols = static_cast<int32_t>(cols);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      const auto value = static_cast<uint8_t>(pixels.bytes[static_cast<size_t>(i * cols + j)]);
      if (value == 0) continue;
      out.x.column.push_back(static_cast<int32_t>(j));
      out.x.value.push_back(static_cast<double>(value) / 255.0);
    }
    out.x.row_start.push_back(out.x.nonzeros());
  }
  if (labels == nullptr) return out;
  LUTHIER_ASSIGN_OR_RETURN(const Idx classes, ReadArray(*labels, labels_name, 1));
  if (classes.size[0] != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat(labels_name, ": has ", classes.size[0], " labels, but ", name, " has ", rows, " images"));
  }
  for (const char c : classes.bytes) out.label.push_back(absl::StrCat(static_cast<uint8_t>(c)));
  return out;
}

}  // namespace luthier::learn
