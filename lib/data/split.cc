#include "lib/data/split.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::data {
namespace {

// Returns the rows of each class in a random order.
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
  // Rounds by largest remainders: floor of each share first, then one more row where the fraction lost is largest.
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
  // The rows are marked, then collected: both parts ascend without being sorted.
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
  // Rows are dealt like cards, one class after the other without starting anew: sizes differ by one at most, and so do
  // the numbers of rows of a class.
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

namespace {

// Rows with their keys, in order of key and then of row.
struct KeyedRows {
  std::vector<int32_t> row, key;
};

absl::StatusOr<KeyedRows> InOrderOfKey(const std::vector<int32_t>& rows, const std::vector<int32_t>& key,
                                       const base::StopToken& stop) {
  base::Pace pace(stop);
  std::vector<int64_t> count;
  for (const int32_t row : rows) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    const auto k = static_cast<size_t>(key[static_cast<size_t>(row)]);
    if (k >= count.size()) LUTHIER_RETURN_IF_ERROR(base::MakeRoom(k + 1 - count.size(), stop, &count));
    if (k >= count.size()) count.resize(k + 1, 0);
    ++count[k];
  }
  int64_t begin = 0;
  for (int64_t& c : count) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(1));
    begin += std::exchange(c, begin);
  }
  KeyedRows sorted;
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(rows.size(), 0, stop, &sorted.row));
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(rows.size(), 0, stop, &sorted.key));
  for (const int32_t row : rows) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * base::kRandomAccess));
    const int32_t k = key[static_cast<size_t>(row)];
    const auto at = static_cast<size_t>(count[static_cast<size_t>(k)]++);
    sorted.row[at] = row;
    sorted.key[at] = k;
  }
  return sorted;
}

// Returns the first index of each key, and the end.
std::vector<size_t> Groups(const KeyedRows& sorted) {
  std::vector<size_t> begin;
  for (size_t i = 0; i < sorted.key.size(); ++i) {
    if (i == 0 || sorted.key[i] != sorted.key[i - 1]) begin.push_back(i);
  }
  begin.push_back(sorted.key.size());
  return begin;
}

absl::Status TooFewKeys(const char* what, size_t have, int need) {
  return absl::InvalidArgumentError(
      absl::StrCat("the column has ", have, " different ", what, ", and the split needs ", need));
}

std::vector<int32_t> Ascending(std::vector<int32_t> rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}

// Holds out groups in random order until the held-out part has its share of the rows; the others train.
absl::StatusOr<Partition> HoldOutGroups(const KeyedRows& sorted, double share, uint64_t seed) {
  const std::vector<size_t> begin = Groups(sorted);
  const size_t groups = begin.size() - 1;
  if (groups < 2) return TooFewKeys("groups", groups, 2);
  std::vector<size_t> order(groups);
  std::iota(order.begin(), order.end(), size_t{0});
  base::RandomStream random(seed, "learn.split.groups");
  random.Shuffle(order);
  const double wanted = share * static_cast<double>(sorted.row.size());
  Partition partition;
  double held = 0.0;
  for (size_t i = 0; i < groups; ++i) {
    const auto first = static_cast<std::ptrdiff_t>(begin[order[i]]);
    const auto last = static_cast<std::ptrdiff_t>(begin[order[i] + 1]);
    const double size = static_cast<double>(last - first);
    // A group is held out if that brings the number nearer to the wanted one; at least one group, and not the last one
    // that trains.
    const bool none = partition.validation.empty() && i + 1 == groups;
    const bool spare = i + 1 < groups || !partition.train.empty();
    const bool hold = none || (spare && held + 0.5 * size <= wanted);
    std::vector<int32_t>* part = hold ? &partition.validation : &partition.train;
    part->insert(part->end(), sorted.row.begin() + first, sorted.row.begin() + last);
    if (hold) held += size;
  }
  partition.train = Ascending(std::move(partition.train));
  partition.validation = Ascending(std::move(partition.validation));
  return partition;
}

absl::StatusOr<std::vector<Partition>> GroupFolds(const KeyedRows& sorted, int folds, uint64_t seed,
                                                  const base::StopToken& stop) {
  const std::vector<size_t> begin = Groups(sorted);
  const size_t groups = begin.size() - 1;
  if (groups < static_cast<size_t>(folds)) return TooFewKeys("groups", groups, folds);
  std::vector<size_t> order(groups);
  std::iota(order.begin(), order.end(), size_t{0});
  base::RandomStream random(seed, "learn.split.groups");
  random.Shuffle(order);
  const auto size = [&](size_t g) { return begin[g + 1] - begin[g]; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size(a) > size(b); });
  std::vector<size_t> rows(static_cast<size_t>(folds), 0);
  std::vector<std::vector<int32_t>> held(static_cast<size_t>(folds));
  for (const size_t g : order) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const auto fold = static_cast<size_t>(std::min_element(rows.begin(), rows.end()) - rows.begin());
    rows[fold] += size(g);
    held[fold].insert(held[fold].end(), sorted.row.begin() + static_cast<std::ptrdiff_t>(begin[g]),
                      sorted.row.begin() + static_cast<std::ptrdiff_t>(begin[g + 1]));
  }
  std::vector<Partition> partitions(static_cast<size_t>(folds));
  for (size_t f = 0; f < partitions.size(); ++f) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    partitions[f].validation = Ascending(held[f]);
    for (size_t other = 0; other < partitions.size(); ++other) {
      if (other == f) continue;
      partitions[f].train.insert(partitions[f].train.end(), held[other].begin(), held[other].end());
    }
    partitions[f].train = Ascending(std::move(partitions[f].train));
  }
  return partitions;
}

// Returns the index in `sorted`, between two keys, nearest to `at`; neither its begin nor its end.
size_t CutNear(const std::vector<size_t>& begin, double at) {
  size_t best = begin[1];
  for (size_t g = 1; g + 1 < begin.size(); ++g) {
    const double distance = std::abs(static_cast<double>(begin[g]) - at);
    if (distance < std::abs(static_cast<double>(best) - at)) best = begin[g];
  }
  return best;
}

std::vector<int32_t> RowsBetween(const KeyedRows& sorted, size_t first, size_t last) {
  return Ascending(std::vector<int32_t>(sorted.row.begin() + static_cast<std::ptrdiff_t>(first),
                                        sorted.row.begin() + static_cast<std::ptrdiff_t>(last)));
}

absl::StatusOr<Partition> HoldOutLast(const KeyedRows& sorted, double share) {
  const std::vector<size_t> begin = Groups(sorted);
  if (begin.size() < 3) return TooFewKeys("times", begin.size() - 1, 2);
  const size_t cut = CutNear(begin, (1.0 - share) * static_cast<double>(sorted.row.size()));
  return Partition{RowsBetween(sorted, 0, cut), RowsBetween(sorted, cut, sorted.row.size())};
}

absl::StatusOr<std::vector<Partition>> TimeFolds(const KeyedRows& sorted, int folds) {
  const std::vector<size_t> begin = Groups(sorted);
  if (begin.size() - 1 < static_cast<size_t>(folds) + 1) return TooFewKeys("times", begin.size() - 1, folds + 1);
  std::vector<size_t> cuts = {0};
  const double n = static_cast<double>(sorted.row.size());
  for (int k = 1; k <= folds; ++k) {
    // Each stretch has at least one time of its own.
    const size_t least = static_cast<size_t>(std::upper_bound(begin.begin(), begin.end(), cuts.back()) - begin.begin());
    const size_t most = begin.size() - 2 - static_cast<size_t>(folds - k);
    const double at = n * k / (folds + 1);
    size_t g = least;
    while (g < most && static_cast<double>(begin[g]) + static_cast<double>(begin[g + 1]) <= 2.0 * at) ++g;
    cuts.push_back(begin[g]);
  }
  cuts.push_back(sorted.row.size());
  std::vector<Partition> partitions;
  for (size_t k = 1; k + 1 < cuts.size(); ++k) {
    partitions.push_back({RowsBetween(sorted, 0, cuts[k]), RowsBetween(sorted, cuts[k], cuts[k + 1])});
  }
  return partitions;
}

// Checks that each training part has rows of all classes: a class without rows could not be learned, and its intercept
// has no optimum.
absl::Status CheckTrainingClasses(const Dataset& dataset, const std::vector<Partition>& partitions,
                                  const base::StopToken& stop) {
  if (dataset.regression()) return absl::OkStatus();
  base::Pace pace(stop);
  for (size_t f = 0; f < partitions.size(); ++f) {
    std::vector<bool> seen(dataset.classes.size(), false);
    for (const int32_t row : partitions[f].train) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
      seen[static_cast<size_t>(dataset.label[static_cast<size_t>(row)])] = true;
    }
    const auto missing = std::find(seen.begin(), seen.end(), false);
    if (missing == seen.end()) continue;
    const auto row =
        std::find(dataset.label.begin(), dataset.label.end(), static_cast<int32_t>(missing - seen.begin()));
    return absl::InvalidArgumentError(absl::StrCat("the class of row ", row - dataset.label.begin() + 1,
                                                   " of the data has no row in the training part",
                                                   partitions.size() > 1 ? absl::StrCat(" of fold ", f + 1) : "",
                                                   "; change seed, folds or shares, or the column that splits"));
  }
  return absl::OkStatus();
}

// Splits `rows`, which ascend. The classes of other rows are ignored.
absl::StatusOr<std::vector<Partition>> SplitRows(const Dataset& dataset, const std::vector<int32_t>& rows, int folds,
                                                 double share, uint64_t seed, const SplitOptions& options,
                                                 const base::StopToken& stop) {
  std::vector<Partition> partitions;
  if (options.key != KeyUse::kNone) {
    LUTHIER_ASSIGN_OR_RETURN(const KeyedRows sorted, InOrderOfKey(rows, dataset.key, stop));
    const bool time = options.key == KeyUse::kTime;
    if (folds > 0) return time ? TimeFolds(sorted, folds) : GroupFolds(sorted, folds, seed, stop);
    LUTHIER_ASSIGN_OR_RETURN(Partition one, time ? HoldOutLast(sorted, share) : HoldOutGroups(sorted, share, seed));
    partitions.push_back(std::move(one));
    return partitions;
  }
  const bool classes = options.stratify && !dataset.regression();
  base::Pace pace(stop);
  std::vector<int32_t> label;
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(rows.size(), 0, stop, &label));
  for (size_t i = 0; classes && i < rows.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    label[i] = dataset.label[static_cast<size_t>(rows[i])];
  }
  const int num_classes = classes ? dataset.num_classes() : 1;
  if (!classes && rows.size() < 2) return absl::InvalidArgumentError("there are fewer than two rows to split");
  if (folds > 0) {
    LUTHIER_ASSIGN_OR_RETURN(partitions, SplitFolds(label, num_classes, folds, seed, stop));
  } else {
    LUTHIER_ASSIGN_OR_RETURN(Partition one, SplitValidation(label, num_classes, share, seed, stop));
    partitions.push_back(std::move(one));
  }
  for (Partition& partition : partitions) {
    for (std::vector<int32_t>* part : {&partition.train, &partition.validation}) {
      for (int32_t& row : *part) {
        LUTHIER_RETURN_IF_ERROR(pace.Poll(1));
        row = rows[static_cast<size_t>(row)];
      }
    }
  }
  return partitions;
}

}  // namespace

absl::StatusOr<std::vector<Partition>> MakeSplit(const Dataset& dataset, const SplitOptions& options,
                                                 const base::StopToken& stop) {
  std::vector<int32_t> rows, third;
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(static_cast<size_t>(dataset.x.rows - dataset.appended), 0, stop, &rows));
  std::iota(rows.begin(), rows.end(), 0);
  if (options.third > 0.0) {
    const uint64_t seed = base::RandomStream(options.seed, "learn.split.third").NextU64();
    LUTHIER_ASSIGN_OR_RETURN(std::vector<Partition> outer,
                             SplitRows(dataset, rows, 0, options.third, seed, options, stop));
    rows = std::move(outer.front().train);
    third = std::move(outer.front().validation);
  }
  std::vector<Partition> partitions;
  if (dataset.appended > 0) {
    partitions.push_back({.train = std::move(rows), .validation = {}});
    std::vector<int32_t>& held = partitions.front().validation;
    LUTHIER_RETURN_IF_ERROR(base::FillInPieces(static_cast<size_t>(dataset.appended), 0, stop, &held));
    std::iota(held.begin(), held.end(), static_cast<int32_t>(dataset.x.rows - dataset.appended));
  } else {
    const double share = options.validation / (1.0 - options.third);
    LUTHIER_ASSIGN_OR_RETURN(partitions, SplitRows(dataset, rows, options.folds, share, options.seed, options, stop));
  }
  LUTHIER_RETURN_IF_ERROR(CheckTrainingClasses(dataset, partitions, stop));
  for (Partition& partition : partitions) partition.third = third;
  return partitions;
}

}  // namespace luthier::data
