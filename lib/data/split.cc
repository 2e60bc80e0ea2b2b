#include "lib/data/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::data {
namespace {

// Rows of each class in a random order.
absl::StatusOr<std::vector<std::vector<int32_t>>> ShuffledClasses(const std::vector<int32_t>& label, int num_classes,
                                                                  uint64_t seed, const base::StopToken& stop) {
  std::vector<std::vector<int32_t>> members(num_classes);
  base::Pace pace(stop);
  for (size_t i = 0; i < label.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(1));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &members[label[i]]));
    members[label[i]].push_back(static_cast<int32_t>(i));
  }
  for (int k = 0; k < num_classes; ++k) {
    if (members[k].size() < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("class number ", k + 1, " (in sorted order) has only ", members[k].size(),
                       " row; a split for training and validation needs two rows of each class"));
    }
    base::RandomStream random(seed, "learn.split", static_cast<uint64_t>(k));
    LUTHIER_RETURN_IF_ERROR(base::ShuffleInPieces(stop, random, &members[k]));
  }
  return members;
}

}  // namespace

absl::StatusOr<Partition> SplitValidation(const std::vector<int32_t>& label, int num_classes, double fraction,
                                          uint64_t seed, const base::StopToken& stop) {
  if (!(fraction > 0.0) || !(fraction < 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat("validation share ", fraction, " is not between 0 and 1"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<std::vector<int32_t>> members,
                           ShuffledClasses(label, num_classes, seed, stop));
  // Largest remainders: floor of each share first, then one more row where the fraction lost is largest.
  const int64_t rows = static_cast<int64_t>(label.size());
  const int64_t wanted = std::clamp<int64_t>(std::llround(fraction * static_cast<double>(rows)), 1, rows - num_classes);
  std::vector<int64_t> take(num_classes);
  std::vector<double> lost(num_classes);
  for (int k = 0; k < num_classes; ++k) {
    const double share = fraction * static_cast<double>(members[k].size());
    take[k] = std::min<int64_t>(static_cast<int64_t>(share), static_cast<int64_t>(members[k].size()) - 1);
    lost[k] = share - static_cast<double>(take[k]);
  }
  std::vector<int> order(num_classes);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&lost](int a, int b) { return lost[a] != lost[b] ? lost[a] > lost[b] : a < b; });
  int64_t taken = std::accumulate(take.begin(), take.end(), int64_t{0});
  for (const int k : order) {
    if (taken >= wanted) break;
    if (take[k] + 1 >= static_cast<int64_t>(members[k].size())) continue;
    ++take[k];
    ++taken;
  }
  LUTHIER_CHECK(taken >= 1);
  // Marked and collected: both parts ascend without being sorted.
  std::vector<uint8_t> held_out;
  base::Pace pace(stop);
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(label.size(), uint8_t{0}, stop, &held_out));
  for (int k = 0; k < num_classes; ++k) {
    for (int64_t i = 0; i < take[k]; ++i) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
      held_out[members[k][i]] = 1;
    }
  }
  Partition partition;
  partition.validation.reserve(static_cast<size_t>(taken));
  partition.train.reserve(static_cast<size_t>(rows - taken));
  for (int64_t i = 0; i < rows; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(1));
    (held_out[i] != 0 ? partition.validation : partition.train).push_back(static_cast<int32_t>(i));
  }
  return partition;
}

absl::StatusOr<std::vector<Partition>> SplitFolds(const std::vector<int32_t>& label, int num_classes, int folds,
                                                  uint64_t seed, const base::StopToken& stop) {
  if (folds < 2) return absl::InvalidArgumentError(absl::StrCat(folds, " folds; at least 2 are needed"));
  if (static_cast<size_t>(folds) > label.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(folds, " folds of ", label.size(), " rows; lower the number of folds"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<std::vector<int32_t>> members,
                           ShuffledClasses(label, num_classes, seed, stop));
  // Dealt like cards, one class after the other without starting anew: sizes differ by one at most, and so do the
  // numbers of rows of a class.
  std::vector<int> fold_of;
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(label.size(), 0, stop, &fold_of));
  int next = 0;
  base::Pace pace(stop);
  for (const std::vector<int32_t>& rows : members) {
    for (const int32_t row : rows) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
      fold_of[row] = next;
      next = (next + 1) % folds;
    }
  }
  std::vector<Partition> partitions(folds);
  for (Partition& partition : partitions) {
    partition.train.reserve(label.size());
    partition.validation.reserve(label.size() / static_cast<size_t>(folds) + 1);
  }
  for (size_t i = 0; i < label.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(folds));
    for (int f = 0; f < folds; ++f) {
      (fold_of[i] == f ? partitions[f].validation : partitions[f].train).push_back(static_cast<int32_t>(i));
    }
  }
  return partitions;
}

absl::StatusOr<std::vector<Partition>> MakeSplit(const std::vector<int32_t>& label, int num_classes,
                                                 const SplitOptions& options, const base::StopToken& stop) {
  const auto split = [&](const std::vector<int32_t>& labels,
                         double validation) -> absl::StatusOr<std::vector<Partition>> {
    if (options.folds > 0) return SplitFolds(labels, num_classes, options.folds, options.seed, stop);
    LUTHIER_ASSIGN_OR_RETURN(Partition one, SplitValidation(labels, num_classes, validation, options.seed, stop));
    std::vector<Partition> all;
    all.push_back(std::move(one));
    return all;
  };
  if (options.third == 0.0) return split(label, options.validation);
  const uint64_t third_seed = base::RandomStream(options.seed, "learn.split.third").NextU64();
  LUTHIER_ASSIGN_OR_RETURN(const Partition outer, SplitValidation(label, num_classes, options.third, third_seed, stop));
  base::Pace pace(stop);
  std::vector<int32_t> rest;
  rest.reserve(outer.train.size());
  for (const int32_t row : outer.train) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    rest.push_back(label[row]);
  }
  const double share = options.validation / (1.0 - options.third);
  LUTHIER_ASSIGN_OR_RETURN(std::vector<Partition> partitions, split(rest, share));
  for (Partition& partition : partitions) {
    for (std::vector<int32_t>* part : {&partition.train, &partition.validation}) {
      for (int32_t& row : *part) {
        LUTHIER_RETURN_IF_ERROR(pace.Poll(1));
        row = outer.train[row];
      }
    }
    partition.third = outer.validation;
  }
  return partitions;
}

}  // namespace luthier::data
