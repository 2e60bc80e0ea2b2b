#include "lib/base/checkpoint.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::base {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

constexpr absl::string_view kMagic = "LUTHCKP1";

}  // namespace

CheckpointWriter::CheckpointWriter(absl::string_view kind) : bytes_(kMagic) {
  Text(kind);
}

CheckpointWriter::CheckpointWriter(absl::string_view kind, std::function<bool(absl::string_view)> sink)
    : bytes_(kMagic), sink_(std::move(sink)), hash_(std::in_place) {
  Text(kind);
}

void CheckpointWriter::Append(absl::string_view bytes) {
  if (!sink_) {
    bytes_.append(bytes.data(), bytes.size());
    return;
  }
  while (taken_ && !bytes.empty()) {
    const size_t count = std::min(bytes.size(), kPiece - bytes_.size());
    if (count == kPiece) {
      Give(bytes.substr(0, count));
    } else {
      bytes_.append(bytes.data(), count);
      if (bytes_.size() == kPiece) Give(std::exchange(bytes_, {}));
    }
    bytes.remove_prefix(count);
  }
}

void CheckpointWriter::Give(absl::string_view bytes) {
  hash_->Add(bytes);
  taken_ = taken_ && sink_(bytes);
}

bool CheckpointWriter::Close() && {
  Give(std::exchange(bytes_, {}));
  U64(hash_->Value());
  Give(bytes_);
  return taken_;
}

void CheckpointWriter::U64(uint64_t value) {
  char raw[8];
  std::memcpy(raw, &value, 8);
  Append(absl::string_view(raw, 8));
}

void CheckpointWriter::F64(double value) {
  U64(std::bit_cast<uint64_t>(value));
}

void CheckpointWriter::Text(absl::string_view text) {
  U64(text.size());
  Append(text);
}

void CheckpointWriter::Vector(const Eigen::VectorXd& vector) {
  U64(static_cast<uint64_t>(vector.size()));
  Append(absl::string_view(reinterpret_cast<const char*>(vector.data()),
                           static_cast<size_t>(vector.size()) * sizeof(double)));
}

void CheckpointWriter::Texts(const std::vector<std::string>& texts) {
  U64(texts.size());
  for (const std::string& text : texts) Text(text);
}

std::string CheckpointWriter::Finish() && {
  U64(base::Hash64(bytes_));
  return std::move(bytes_);
}

absl::StatusOr<CheckpointReader> CheckpointReader::Open(absl::string_view bytes, absl::string_view kind,
                                                        const base::StopToken& stop) {
  if (bytes.size() < kMagic.size() + 8 || bytes.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("checkpoint: not a checkpoint, or cut off");
  }
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + bytes.size() - 8, 8);
  bytes.remove_suffix(8);
  base::Hash64Parts hash;
  LUTHIER_RETURN_IF_ERROR(base::InPieces(static_cast<int64_t>(bytes.size()), 1, stop, [&](int64_t begin, int64_t end) {
    hash.Add(bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  }));
  if (stored != hash.Value()) return absl::DataLossError("checkpoint: the checksum does not match");
  CheckpointReader reader(bytes.substr(kMagic.size()), stop);
  const std::string found = reader.Text();
  if (!reader.ok()) return absl::DataLossError("checkpoint: cut off");
  if (found != kind) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoint: holds ", base::Quote(found), ", not ", base::Quote(kind)));
  }
  return reader;
}

void CheckpointReader::Fail() {
  if (ok()) status_ = absl::DataLossError("checkpoint: cut off, or of something else");
}

absl::string_view CheckpointReader::Take(uint64_t size) {
  if (!ok() || size > rest_.size()) {
    Fail();
    return "";
  }
  const absl::string_view taken = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return taken;
}

uint64_t CheckpointReader::U64() {
  const absl::string_view raw = Take(8);
  uint64_t value = 0;
  if (ok()) std::memcpy(&value, raw.data(), 8);
  return value;
}

double CheckpointReader::F64() {
  return std::bit_cast<double>(U64());
}

std::string CheckpointReader::Text() {
  return std::string(Take(U64()));
}

Eigen::VectorXd CheckpointReader::Vector() {
  const uint64_t size = U64();
  if (size > rest_.size() / sizeof(double)) Fail();
  if (!ok()) return {};
  Eigen::VectorXd vector(static_cast<Eigen::Index>(size));
  const absl::string_view raw = Take(size * sizeof(double));
  if (size > 0) std::memcpy(vector.data(), raw.data(), raw.size());
  return vector;
}

std::vector<std::string> CheckpointReader::Texts() {
  const uint64_t count = U64();
  std::vector<std::string> texts;
  base::Pace pace(stop_);
  for (uint64_t k = 0; k < count && ok(); ++k) {
    texts.push_back(Text());
    if (ok()) status_ = pace.Poll(64 + static_cast<int64_t>(texts.back().size()));
  }
  return texts;
}

}  // namespace luthier::base
