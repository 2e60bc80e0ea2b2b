#include "lib/model/linear_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/model/table_rows.h"
#include "lib/notation/number.h"

namespace luthier::model {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using linear::MarginLoss;

constexpr int32_t kUnknown = -1;

bool Fits(const LinearParts& parts) {
  const auto p = static_cast<Index>(parts.cols);
  const Index k = parts.scores();
  return parts.classes.size() >= 2 && parts.classes.size() <= static_cast<size_t>(data::kMaxClasses) && p >= 1 &&
         p <= data::kMaxColumns && (parts.features.empty() || parts.features.size() == static_cast<size_t>(p)) &&
         parts.weights.size() == p * k && parts.bias.size() == k && parts.mean.size() == parts.deviation.size() &&
         (parts.mean.size() == 0 || parts.mean.size() == p) && (parts.deviation.array() > 0.0).all() &&
         parts.weights.allFinite() && parts.bias.allFinite() && parts.mean.allFinite() && parts.loss.epsilon > 0.0;
}

// Returns the index of each row's label among the classes; numbers are compared as numbers if all classes are numbers.
absl::StatusOr<std::vector<int32_t>> ClassesOf(const data::RawRows& rows, const std::vector<std::string>& classes) {
  std::map<double, int32_t> numbers;
  std::map<std::string, int32_t> texts;
  bool numeric = true;
  for (size_t k = 0; k < classes.size(); ++k) {
    double value = 0.0;
    numeric = numeric && notation::ParseNumber(classes[k], &value);
    numbers.emplace(value, static_cast<int32_t>(k));
    texts.emplace(classes[k], static_cast<int32_t>(k));
  }
  std::vector<int32_t> index;
  for (size_t i = 0; i < rows.label.size(); ++i) {
    const std::string& text = rows.label[i];
    if (text.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(rows.name, ": row ", i + 1, " of the data has no label"));
    }
    double value = 0.0;
    if (numeric) {
      const auto found = notation::ParseNumber(text, &value) ? numbers.find(value) : numbers.end();
      index.push_back(found == numbers.end() ? kUnknown : found->second);
    } else {
      const auto found = texts.find(text);
      index.push_back(found == texts.end() ? kUnknown : found->second);
    }
  }
  return index;
}

// log(sum_k exp(z_k)).
double LogSumExp(const VectorXd& z) {
  const double top = z.maxCoeff();
  return std::isfinite(top) ? top + std::log((z.array() - top).exp().sum()) : top;
}

int32_t Decide(const VectorXd& z) {
  if (z.size() == 1) return z[0] > 0.0 ? 1 : 0;
  Index best = 0;
  z.maxCoeff(&best);
  return static_cast<int32_t>(best);
}

double Ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Area under the ROC curve: the share of pairs of a second-class and a first-class row that the scores order right,
// ties counting a half. NaN where one of the classes is not there.
double Auc(const MatrixXd& z, const std::vector<int32_t>& label) {
  std::vector<size_t> order;
  for (size_t i = 0; i < label.size(); ++i) {
    if (label[i] != kUnknown) order.push_back(i);
  }
  const auto score = [&](size_t i) { return z(static_cast<Index>(i), 0); };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return score(a) < score(b); });
  double below = 0.0, pairs = 0.0, positives = 0.0;  // `below`: first-class rows with a smaller score.
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    double first = 0.0, second = 0.0;
    while (end < order.size() && score(order[end]) == score(order[begin])) {
      (label[order[end]] == 1 ? second : first) += 1.0;
      ++end;
    }
    pairs += second * (below + 0.5 * first);
    below += first;
    positives += second;
    begin = end;
  }
  return positives > 0.0 && below > 0.0 ? pairs / (positives * below) : NAN;
}

}  // namespace

LinearModel::LinearModel(ModelInfo info, LinearParts parts) : Model(std::move(info)), parts_(std::move(parts)) {
  LUTHIER_CHECK(Fits(parts_));
  const int K = parts_.scores();
  slopes_ = parts_.weights;
  offsets_ = parts_.bias;
  for (Index j = 0; j < parts_.mean.size(); ++j) {
    for (int k = 0; k < K; ++k) {
      slopes_[j * K + k] /= parts_.deviation[j];
      offsets_[k] -= slopes_[j * K + k] * parts_.mean[j];
    }
  }
}

void LinearModel::SaveParts(base::CheckpointWriter* writer) const {
  writer->Text(kType);
  writer->Texts(parts_.classes);
  writer->Texts(parts_.features);
  writer->Text(parts_.label_name);
  writer->U64(static_cast<uint64_t>(parts_.cols));
  writer->U64(static_cast<uint64_t>(parts_.loss.kind));
  writer->F64(parts_.loss.epsilon);
  writer->Vector(parts_.mean);
  writer->Vector(parts_.deviation);
  writer->Vector(parts_.weights);
  writer->Vector(parts_.bias);
}

absl::StatusOr<std::unique_ptr<Model>> LinearModel::Load(ModelInfo info, base::CheckpointReader* reader) {
  LinearParts parts;
  parts.classes = reader->Texts();
  parts.features = reader->Texts();
  parts.label_name = reader->Text();
  parts.cols = static_cast<int64_t>(reader->U64());
  const uint64_t kind = reader->U64();
  parts.loss.epsilon = reader->F64();
  parts.mean = reader->Vector();
  parts.deviation = reader->Vector();
  parts.weights = reader->Vector();
  parts.bias = reader->Vector();
  if (!reader->ok() || kind > static_cast<uint64_t>(MarginLoss::Kind::kHuberizedHinge)) {
    return absl::DataLossError("its parts are cut off");
  }
  parts.loss.kind = static_cast<MarginLoss::Kind>(kind);
  if (!Fits(parts)) return absl::DataLossError("its parts do not fit together");
  return std::unique_ptr<Model>(std::make_unique<LinearModel>(std::move(info), std::move(parts)));
}

std::vector<std::pair<std::string, std::string>> LinearModel::Facts() const {
  int64_t used = 0;
  const int K = parts_.scores();
  for (Index j = 0; j < static_cast<Index>(parts_.cols); ++j) {
    used += (parts_.weights.segment(j * K, K).array() != 0.0).any() ? 1 : 0;
  }
  return {{"classes", absl::StrJoin(parts_.classes, ", ")},
          {"features",
           absl::StrCat(parts_.cols, parts_.features.empty() ? " (no names)" : "", ", ", used, " with weights")},
          {"standardized", parts_.mean.size() > 0 ? "yes" : "no"}};
}

MatrixXd LinearModel::Scores(const data::SparseMatrix& x) const {
  LUTHIER_CHECK(x.cols == parts_.cols);
  const int K = parts_.scores();
  MatrixXd z(x.rows, K);
  for (int64_t i = 0; i < x.rows; ++i) {
    VectorXd row = offsets_;
    for (int64_t e = x.row_start[i]; e < x.row_start[i + 1]; ++e) {
      row += x.value[e] * slopes_.segment(static_cast<Index>(x.column[e]) * K, K);
    }
    z.row(i) = row.transpose();
  }
  return z;
}

absl::StatusOr<data::RawRows> LinearModel::Read(const DataFile& data, std::vector<std::string>* notes) const {
  data::WantedColumns wanted;
  wanted.cols = static_cast<int32_t>(parts_.cols);
  wanted.features = parts_.features;
  wanted.label = parts_.label_name;
  return ReadTable(data, wanted, notes);
}

absl::StatusOr<Predictions> LinearModel::Predict(const DataFile& data) const {
  Predictions out;
  LUTHIER_ASSIGN_OR_RETURN(const data::RawRows rows, Read(data, &out.notes));
  const MatrixXd z = Scores(rows.x);
  const bool probabilities = parts_.loss.kind == MarginLoss::Kind::kLogistic;
  if (probabilities) {
    for (const std::string& name : parts_.classes) out.numbers.push_back(absl::StrCat("p_", name));
  } else {
    out.numbers.push_back("score");
  }
  for (Index i = 0; i < z.rows(); ++i) {
    const VectorXd row = z.row(i).transpose();
    out.label.push_back(parts_.classes[static_cast<size_t>(Decide(row))]);
    std::vector<double>& value = out.value.emplace_back();
    if (!probabilities) {
      value.push_back(row[0]);
    } else if (row.size() == 1) {
      const double e = std::exp(-std::abs(row[0]));
      // Probability of the less probable class: never rounded to 0 before it has to be.
      const double less = e / (1.0 + e);
      value = row[0] > 0.0 ? std::vector<double>{less, 1.0 - less} : std::vector<double>{1.0 - less, less};
    } else {
      const double total = LogSumExp(row);
      for (const double score : row) value.push_back(std::exp(score - total));
    }
  }
  return out;
}

absl::StatusOr<Evaluation> LinearModel::Evaluate(const DataFile& data) const {
  Evaluation out;
  LUTHIER_ASSIGN_OR_RETURN(const data::RawRows rows, Read(data, &out.notes));
  if (rows.label.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path, ": has no labels to compare with"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int32_t> label, ClassesOf(rows, parts_.classes));
  const MatrixXd z = Scores(rows.x);
  const size_t classes = parts_.classes.size();
  std::vector<int64_t> gold(classes), found(classes), right(classes);
  int64_t known = 0, correct = 0;
  double loss = 0.0;
  for (Index i = 0; i < z.rows(); ++i) {
    const VectorXd row = z.row(i).transpose();
    const int32_t truth = label[static_cast<size_t>(i)];
    const int32_t guess = Decide(row);
    ++found[static_cast<size_t>(guess)];
    if (truth == kUnknown) continue;
    ++known;
    ++gold[static_cast<size_t>(truth)];
    if (guess == truth) {
      ++correct;
      ++right[static_cast<size_t>(truth)];
    }
    loss += row.size() == 1 ? parts_.loss.Value(truth == 1 ? row[0] : -row[0]) : LogSumExp(row) - row[truth];
  }
  const auto n = static_cast<int64_t>(label.size());
  if (known < n) {
    out.notes.push_back(absl::StrCat(n - known, " of ", n, " rows have labels that the model does not know (it knows ",
                                     absl::StrJoin(parts_.classes, ", "), "): counted as wrong, without loss"));
  }
  out.metrics["rows"] = static_cast<double>(n);
  out.metrics["unknown_labels"] = static_cast<double>(n - known);
  out.metrics["accuracy"] = Ratio(correct, n);
  out.metrics["loss"] = known == 0 ? NAN : loss / static_cast<double>(known);
  double sum = 0.0;
  for (size_t k = 0; k < classes; ++k) {
    Evaluation::Part part;
    part.name = parts_.classes[k];
    part.precision = Ratio(right[k], found[k]);
    part.recall = Ratio(right[k], gold[k]);
    part.f1 = Ratio(2 * right[k], found[k] + gold[k]);
    part.count = gold[k];
    sum += part.f1;
    out.parts.push_back(std::move(part));
  }
  out.metrics["macro_f1"] = sum / static_cast<double>(classes);
  if (classes == 2) out.metrics["auc"] = Auc(z, label);
  return out;
}

}  // namespace luthier::model
