#include "lib/objectives/row_source.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/regression_info.h"
#include "lib/data/nearest_column.h"

namespace luthier::objectives {
namespace {

// Checks that no class has only one row, which cannot be on both sides of a split. It is checked here, where classes
// have names.
absl::Status CheckClassSizes(const data::Dataset& dataset) {
  std::vector<int64_t> rows(dataset.classes.size(), 0);
  for (const int32_t label : dataset.label) ++rows[static_cast<size_t>(label)];
  const auto alone = std::find(rows.begin(), rows.end(), 1);
  if (alone == rows.end()) return absl::OkStatus();
  const auto row = std::find(dataset.label.begin(), dataset.label.end(), static_cast<int32_t>(alone - rows.begin()));
  return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": row ", row - dataset.label.begin() + 1,
                                                 " of the data is the only one of its class; to train on some rows and "
                                                 "validate on others, each class needs two (is the label "
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

// Makes the columns `names` (comma-separated, at least one) targets instead of features.
absl::Status TakeTargets(const std::string& names, const base::StopToken& stop, RowSource* source) {
  data::Dataset& dataset = source->dataset;
  const auto error = [&](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": option targets ", why...));
  };
  if (dataset.features.empty()) return error("goes by names of columns, and the file has none; give it a header");
  constexpr int32_t kTaken = -2;
  // For each column: its new place, or the number of its target.
  std::vector<int32_t> place(dataset.features.size(), 0);
  for (const absl::string_view part : absl::StrSplit(names, ',')) {
    const absl::string_view name = absl::StripAsciiWhitespace(part);
    const auto found = std::find(dataset.features.begin(), dataset.features.end(), name);
    if (found == dataset.features.end()) {
      if (name == dataset.label_name) return error("names the label ", base::Quote(name), ", which is a target anyway");
      return error("names ", base::Quote(name), ", and there is no such column",
                   data::NearestColumn(name, dataset.features));
    }
    int32_t& at = place[static_cast<size_t>(found - dataset.features.begin())];
    if (at < 0) return error("names ", base::Quote(name), " twice");
    at = kTaken - static_cast<int32_t>(source->more_targets.size());
    source->more_targets.emplace_back(static_cast<size_t>(dataset.x.rows), 0.0);
  }
  std::vector<std::string> features;
  for (size_t j = 0; j < place.size(); ++j) {
    if (place[j] < 0) continue;
    place[j] = static_cast<int32_t>(features.size());
    features.push_back(std::move(dataset.features[j]));
  }
  if (features.empty()) return error("leaves no column to predict from");
  data::SparseMatrix& x = dataset.x;
  size_t kept = 0;
  base::Pace pace(stop);
  for (size_t i = 0; i < static_cast<size_t>(x.rows); ++i) {
    const auto begin = static_cast<size_t>(x.row_start[i]), end = static_cast<size_t>(x.row_start[i + 1]);
    x.row_start[i] = static_cast<int64_t>(kept);
    for (size_t e = begin; e < end; ++e) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(4));
      const int32_t at = place[static_cast<size_t>(x.column[e])];
      if (at < 0) {
        source->more_targets[static_cast<size_t>(kTaken - at)][i] = x.value[e];
        continue;
      }
      x.column[kept] = at;
      x.value[kept++] = x.value[e];
    }
  }
  x.row_start.back() = static_cast<int64_t>(kept);
  x.column.resize(kept);
  x.value.resize(kept);
  x.cols = static_cast<int32_t>(features.size());
  dataset.features = std::move(features);
  absl::StrAppend(&source->identity, " targets ", names);
  return absl::OkStatus();
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
  if (const auto targets = objective.options.find(catalogue::kTargetsOption); targets != objective.options.end()) {
    LUTHIER_RETURN_IF_ERROR(TakeTargets(std::get<std::string>(targets->second), stop, &source));
  }
  return source;
}

}  // namespace luthier::objectives
