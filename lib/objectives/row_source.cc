#include "lib/objectives/row_source.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::objectives {
namespace {

// A class of one row cannot be on both sides of a split. Said here, where classes have names.
absl::Status CheckClassSizes(const data::Dataset& dataset) {
  std::vector<int64_t> rows(dataset.classes.size(), 0);
  for (const int32_t label : dataset.label) ++rows[static_cast<size_t>(label)];
  const auto alone = std::find(rows.begin(), rows.end(), 1);
  if (alone == rows.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      dataset.name, ": class ", base::Quote(dataset.classes[static_cast<size_t>(alone - rows.begin())]),
      " has one row only; to train on some rows and validate on others, each class needs two (is the label "
      "in the right column?)"));
}

std::string IdentityOf(const std::string& fingerprint, const study::Split& split) {
  std::string identity =
      absl::StrCat(fingerprint, " validation ", study::FormatDouble(split.folds > 0 ? 0.0 : split.validation),
                   " folds ", split.folds, " seed ", split.seed);
  if (split.third > 0.0) absl::StrAppend(&identity, " third ", study::FormatDouble(split.third));
  if (split.stratify) absl::StrAppend(&identity, " stratify ", *split.stratify ? "yes" : "no");
  // The key itself is in the fingerprint.
  if (!split.group_column.empty()) absl::StrAppend(&identity, " by group");
  if (!split.time_column.empty()) absl::StrAppend(&identity, " by time");
  return identity;
}

}  // namespace

data::ReadOptions ParseReadOptions(const study::Parameters& options) {
  const auto text = [&](const char* name) {
    const auto found = options.find(name);
    return found == options.end() ? std::string() : std::get<std::string>(found->second);
  };
  data::ReadOptions read;
  if (text("format") == "csv") read.format = data::Format::kCsv;
  if (text("format") == "libsvm") read.format = data::Format::kLibsvm;
  if (text("format") == "idx") read.format = data::Format::kIdx;
  if (text("header") == "yes") read.header = data::Header::kYes;
  if (text("header") == "no") read.header = data::Header::kNo;
  read.label = text("label");
  read.labels_file = text("labels_file");
  return read;
}

std::string KeyColumn(const study::Split& split) {
  return split.group_column.empty() ? split.time_column : split.group_column;
}

absl::StatusOr<RowSource> LoadRows(const study::BuiltinObjective& objective, data::Task task,
                                   const data::DataRoot* root, const data::DataCache* cache,
                                   const base::StopToken& stop) {
  const study::Split& split = objective.split;
  data::ReadOptions read = ParseReadOptions(objective.options);
  read.task = task;
  read.limits.stop = stop;
  read.key_column = KeyColumn(split);
  LUTHIER_ASSIGN_OR_RETURN(data::LoadedDataset loaded, data::LoadDataset(objective.data, read, root, cache));
  RowSource source;
  if (!split.validation_data.empty()) {
    read.labels_file.clear();
    LUTHIER_ASSIGN_OR_RETURN(const data::LoadedDataset held_out,
                             data::LoadDataset(split.validation_data, read, root, cache));
    LUTHIER_ASSIGN_OR_RETURN(loaded.dataset, data::Concatenate(std::move(loaded.dataset), held_out.dataset, stop));
    absl::StrAppend(&loaded.fingerprint, " and ", held_out.fingerprint);
  }
  source.dataset = std::move(loaded.dataset);
  source.identity = IdentityOf(loaded.fingerprint, split);
  const bool keyed = !read.key_column.empty();
  const bool stratify = split.stratify.value_or(!keyed);
  if (split.validation_data.empty() && stratify && !keyed) {
    LUTHIER_RETURN_IF_ERROR(CheckClassSizes(source.dataset));
  }
  absl::StatusOr<std::vector<data::Partition>> parts =
      data::MakeSplit(source.dataset,
                      {.validation = split.validation,
                       .folds = split.folds,
                       .third = split.third,
                       .seed = split.seed,
                       .stratify = stratify,
                       .key = !split.group_column.empty()  ? data::KeyUse::kGroup
                              : !split.time_column.empty() ? data::KeyUse::kTime
                                                           : data::KeyUse::kNone},
                      stop);
  if (!parts.ok()) {
    return absl::Status(parts.status().code(), absl::StrCat(source.dataset.name, ": ", parts.status().message()));
  }
  source.folds = *std::move(parts);
  return source;
}

}  // namespace luthier::objectives
