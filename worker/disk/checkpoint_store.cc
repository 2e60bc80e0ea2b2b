#include "worker/disk/checkpoint_store.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/status_macros.h"
#include "lib/study/study_spec.h"
#include "worker/disk/durable_file.h"

namespace luthier::worker {
namespace {

constexpr char kScheme[] = "file:";
constexpr char kMagic[] = "LUTHCKP1";
constexpr size_t kHeaderBytes = 24;  // Magic, length, checksum; little endian.
constexpr size_t kMaxBytes = size_t{1} << 32;

void PutU64(uint64_t value, std::string* out) {
  for (int k = 0; k < 8; ++k) *out += static_cast<char>(value >> (8 * k));
}

uint64_t GetU64(absl::string_view bytes) {
  uint64_t value = 0;
  for (int k = 7; k >= 0; --k) value = value << 8 | static_cast<unsigned char>(bytes[k]);
  return value;
}

// Reads a reference. Names of other forms are refused, so that none leaves the directory.
bool FileName(const std::string& reference, std::string* name) {
  if (!absl::StartsWith(reference, kScheme)) return false;
  *name = reference.substr(sizeof(kScheme) - 1);
  if (name->empty() || name->size() > 128 || (*name)[0] == '.' || absl::StrContains(*name, "..")) return false;
  for (const char c : *name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!good) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<CheckpointStore> CheckpointStore::Open(std::string directory) {
  LUTHIER_RETURN_IF_ERROR(MakeDirectory(directory));
  if (access(directory.c_str(), R_OK | W_OK | X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot write to the checkpoint directory ", directory));
  }
  return CheckpointStore(std::move(directory));
}

std::string CheckpointStore::Reference(const std::string& study, int64_t trial, int32_t attempt) {
  return absl::StrCat(kScheme, study, ".", trial, ".a", attempt);
}

absl::StatusOr<std::string> CheckpointStore::Save(const std::string& study, int64_t trial, int32_t attempt,
                                                  absl::string_view snapshot) const {
  const std::string reference = Reference(study, trial, attempt);
  std::string name;
  if (!FileName(reference, &name)) return absl::InvalidArgumentError(absl::StrCat("no file name: ", reference));
  std::string content(kMagic);
  PutU64(snapshot.size(), &content);
  PutU64(base::Hash64(snapshot), &content);
  content.append(snapshot.data(), snapshot.size());
  LUTHIER_RETURN_IF_ERROR(MakeDirectory(directory_));  // The directory may have been removed while the worker ran.
  LUTHIER_RETURN_IF_ERROR(WriteDurably(directory_, name, content));
  return reference;
}

absl::StatusOr<std::string> CheckpointStore::Load(const std::string& reference) const {
  std::string name;
  if (!FileName(reference, &name)) {
    return absl::NotFoundError(absl::StrCat(base::Quote(reference), " is not a checkpoint of a builtin objective"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::string content, ReadWhole(directory_ + "/" + name, kMaxBytes));
  const absl::string_view bytes(content);
  if (bytes.size() < kHeaderBytes || bytes.substr(0, 8) != kMagic ||
      GetU64(bytes.substr(8, 8)) != bytes.size() - kHeaderBytes ||
      GetU64(bytes.substr(16, 8)) != base::Hash64(bytes.substr(kHeaderBytes))) {
    return absl::DataLossError(absl::StrCat("the checkpoint ", reference, " is damaged"));
  }
  return std::string(bytes.substr(kHeaderBytes));
}

void CheckpointStore::Remove(const std::string& reference) const {
  std::string name;
  if (FileName(reference, &name)) unlink((directory_ + "/" + name).c_str());
}

void CheckpointStore::RemoveStudy(const std::string& study) const {
  // An id may contain points, so names are read from their ends.
  const auto cut = [](absl::string_view* name, absl::string_view mark) {
    size_t digits = 0;
    while (digits < name->size() && absl::ascii_isdigit((*name)[name->size() - 1 - digits])) ++digits;
    *name = name->substr(0, name->size() - digits);
    return digits > 0 && absl::ConsumeSuffix(name, mark);
  };
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(directory_, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    absl::string_view rest = name;
    if (cut(&rest, ".a") && cut(&rest, ".") && rest == study) unlink(it->path().c_str());
  }
}

}  // namespace luthier::worker
