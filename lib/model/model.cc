#include "lib/model/model.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/model/chain_model.h"
#include "lib/model/linear_model.h"
#include "lib/model/regression_model.h"

namespace luthier::model {
namespace {

constexpr char kKind[] = "luthier.model/2";
constexpr int64_t kMaxFileBytes = int64_t{8} << 30;

void SaveInfo(const ModelInfo& info, base::CheckpointWriter* writer) {
  writer->Text(info.objective);
  writer->U64(info.settings.size());
  for (const auto& [name, value] : info.settings) {
    writer->Text(name);
    writer->U64(value.index());
    if (const auto* number = std::get_if<double>(&value)) {
      writer->F64(*number);
    } else if (const auto* flag = std::get_if<bool>(&value)) {
      writer->U64(*flag ? 1 : 0);
    } else if (const auto* list = std::get_if<std::vector<double>>(&value)) {
      writer->Vector(Eigen::Map<const Eigen::VectorXd>(list->data(), static_cast<Eigen::Index>(list->size())));
    } else {
      writer->Text(std::get<std::string>(value));
    }
  }
  writer->Text(info.data);
  writer->Text(info.fingerprint);
  writer->U64(static_cast<uint64_t>(info.examples));
  writer->Text(info.study);
  writer->U64(static_cast<uint64_t>(info.trial));
  writer->Text(info.version);
  writer->Text(info.outcome);
  writer->Text(info.note);
  writer->U64(info.metrics.size());
  for (const auto& [name, value] : info.metrics) {
    writer->Text(name);
    writer->F64(value);
  }
}

ModelInfo LoadInfo(base::CheckpointReader* reader) {
  ModelInfo info;
  info.objective = reader->Text();
  const uint64_t settings = reader->U64();
  for (uint64_t k = 0; k < settings && reader->ok(); ++k) {
    const std::string name = reader->Text();
    study::ParameterValue& value = info.settings[name];
    const uint64_t index = reader->U64();
    if (index == study::ParameterValue(0.0).index()) {
      value = reader->F64();
    } else if (index == study::ParameterValue(true).index()) {
      value = reader->U64() != 0;
    } else if (index == study::ParameterValue(std::vector<double>()).index()) {
      const Eigen::VectorXd list = reader->Vector();
      value = std::vector<double>(list.begin(), list.end());
    } else {
      value = reader->Text();
    }
  }
  info.data = reader->Text();
  info.fingerprint = reader->Text();
  info.examples = static_cast<int64_t>(reader->U64());
  info.study = reader->Text();
  info.trial = static_cast<int64_t>(reader->U64());
  info.version = reader->Text();
  info.outcome = reader->Text();
  info.note = reader->Text();
  const uint64_t metrics = reader->U64();
  for (uint64_t k = 0; k < metrics && reader->ok(); ++k) {
    const std::string name = reader->Text();
    info.metrics[name] = reader->F64();
  }
  return info;
}

}  // namespace

std::string Model::Save() const {
  base::CheckpointWriter writer(kKind);
  SaveInfo(info_, &writer);
  SaveParts(&writer);
  return std::move(writer).Finish();
}

absl::StatusOr<std::unique_ptr<Model>> LoadModel(absl::string_view bytes, const std::string& name) {
  absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kKind);
  if (absl::IsFailedPrecondition(reader.status())) {
    return absl::FailedPreconditionError(absl::StrCat(name, ": is no model that this version of Luthier reads (",
                                                      std::string(reader.status().message()),
                                                      "); train it again with this version"));
  }
  if (!reader.ok()) {
    return absl::DataLossError(absl::StrCat(name, ": is no model file, or it is damaged or cut off (",
                                            std::string(reader.status().message()),
                                            "); train it again, or take it from where it was copied"));
  }
  ModelInfo info = LoadInfo(&*reader);
  const std::string type = reader->Text();
  absl::StatusOr<std::unique_ptr<Model>> model = absl::DataLossError(absl::StrCat("unknown type ", base::Quote(type)));
  if (type == LinearModel::kType) model = LinearModel::Load(std::move(info), &*reader);
  if (type == RegressionModel::kType || type == RegressionModel::kNetworkType) {
    model = RegressionModel::Load(std::move(info), type == RegressionModel::kNetworkType, &*reader);
  }
  if (type == ChainModel::kType) model = ChainModel::Load(std::move(info), &*reader);
  if (model.ok() && !reader->Done()) model = absl::DataLossError("there is more than a model");
  if (!model.ok()) {
    return absl::DataLossError(
        absl::StrCat(name, ": is damaged: ", std::string(model.status().message()), "; train it again"));
  }
  return model;
}

absl::StatusOr<data::UniqueFd> OpenUserFile(const std::string& path) {
  data::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be opened"));
  struct stat facts = {};
  if (fstat(fd.get(), &facts) != 0) return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be looked at"));
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, S_ISDIR(facts.st_mode) ? ": is a directory; name a file"
                                                  : ": is not a regular file; what a pipe gives can be read as `-`"));
  }
  return fd;
}

absl::StatusOr<std::unique_ptr<Model>> ReadModelFile(const std::string& path) {
  LUTHIER_ASSIGN_OR_RETURN(const data::UniqueFd fd, OpenUserFile(path));
  std::string bytes;
  while (true) {
    constexpr size_t kChunk = size_t{1} << 20;
    const size_t before = bytes.size();
    bytes.resize(before + kChunk);
    const ssize_t count = read(fd.get(), bytes.data() + before, kChunk);
    const int error = errno;
    bytes.resize(before + (count > 0 ? static_cast<size_t>(count) : 0));
    if (count < 0 && error == EINTR) continue;
    if (count < 0) return absl::ErrnoToStatus(error, absl::StrCat(path, ": cannot be read"));
    if (count == 0) break;
    if (static_cast<int64_t>(bytes.size()) > kMaxFileBytes) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": is larger than ", kMaxFileBytes, " bytes"));
    }
  }
  return LoadModel(bytes, path);
}

}  // namespace luthier::model
