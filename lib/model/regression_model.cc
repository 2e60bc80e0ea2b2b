#include "lib/model/regression_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/model/table_rows.h"
#include "lib/notation/number.h"

namespace luthier::model {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int64_t kMostUnits = 1000;

// Number of weights without a kernel.
Index NumberOfWeights(const RegressionParts& parts) {
  const auto p = static_cast<Index>(parts.cols);
  return parts.units > 0 ? static_cast<Index>(parts.units) * (p + 2) + 1 : p;
}

bool Fits(const RegressionParts& parts) {
  const auto p = static_cast<Index>(parts.cols);
  const bool kernel = parts.gamma.size() > 0;
  return p >= 1 && p <= data::kMaxColumns && parts.units >= 0 && parts.units <= kMostUnits &&
         (parts.features.empty() || parts.features.size() == static_cast<size_t>(p)) &&
         parts.mean.size() == parts.deviation.size() && (parts.mean.size() == 0 || parts.mean.size() == p) &&
         (parts.deviation.array() > 0.0).all() && parts.mean.allFinite() && parts.weights.allFinite() &&
         std::isfinite(parts.offset) &&
         (kernel ? (parts.gamma.size() == 1 || parts.gamma.size() == p) && (parts.gamma.array() > 0.0).all() &&
                       parts.points.rows() == parts.weights.size() && parts.points.cols() == p
                 : parts.weights.size() == NumberOfWeights(parts) && parts.points.size() == 0);
}

}  // namespace

RegressionModel::RegressionModel(ModelInfo info, RegressionParts parts)
    : Model(std::move(info)), parts_(std::move(parts)) {
  LUTHIER_CHECK(Fits(parts_));
}

void RegressionModel::SaveParts(base::CheckpointWriter* writer) const {
  writer->Text(parts_.units > 0 ? kNetworkType : kType);
  writer->Texts(parts_.features);
  writer->Text(parts_.label_name);
  writer->U64(static_cast<uint64_t>(parts_.cols));
  writer->Vector(parts_.mean);
  writer->Vector(parts_.deviation);
  writer->Vector(parts_.weights);
  writer->F64(parts_.offset);
  writer->Vector(parts_.gamma);
  writer->Vector(Eigen::Map<const VectorXd>(parts_.points.data(), parts_.points.size()));
  if (parts_.units > 0) writer->U64(static_cast<uint64_t>(parts_.units));
}

absl::StatusOr<std::unique_ptr<Model>> RegressionModel::Load(ModelInfo info, bool network,
                                                             base::CheckpointReader* reader) {
  RegressionParts parts;
  parts.features = reader->Texts();
  parts.label_name = reader->Text();
  parts.cols = static_cast<int64_t>(reader->U64());
  parts.mean = reader->Vector();
  parts.deviation = reader->Vector();
  parts.weights = reader->Vector();
  parts.offset = reader->F64();
  parts.gamma = reader->Vector();
  const VectorXd points = reader->Vector();
  if (network) parts.units = static_cast<int64_t>(reader->U64());
  if (!reader->ok()) return absl::DataLossError("its parts are cut off");
  const Index n = parts.weights.size();
  if (parts.gamma.size() > 0 && (parts.cols < 1 || parts.cols > data::kMaxColumns || points.size() != n * parts.cols)) {
    return absl::DataLossError("its parts do not fit together");
  }
  if (parts.gamma.size() > 0) {
    parts.points = Eigen::Map<const Eigen::MatrixXd>(points.data(), n, static_cast<Index>(parts.cols));
  }
  if (!Fits(parts) || network != (parts.units > 0)) return absl::DataLossError("its parts do not fit together");
  return std::unique_ptr<Model>(std::make_unique<RegressionModel>(std::move(info), std::move(parts)));
}

std::vector<std::pair<std::string, std::string>> RegressionModel::Facts() const {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"features", absl::StrCat(parts_.cols, parts_.features.empty() ? " (no names)" : "")},
      {"standardized", parts_.mean.size() > 0 ? "yes" : "no"}};
  if (parts_.gamma.size() > 0) facts.emplace_back("points", absl::StrCat(parts_.weights.size()));
  if (parts_.units > 0) facts.emplace_back("units", absl::StrCat(parts_.units));
  return facts;
}

absl::StatusOr<data::RawRows> RegressionModel::Read(const DataFile& data, std::vector<std::string>* notes) const {
  data::WantedColumns wanted;
  wanted.cols = static_cast<int32_t>(parts_.cols);
  wanted.features = parts_.features;
  wanted.label = parts_.label_name;
  return ReadTable(data, wanted, notes);
}

VectorXd RegressionModel::Values(const data::SparseMatrix& x) const {
  LUTHIER_CHECK(x.cols == parts_.cols);
  VectorXd out(static_cast<Index>(x.rows));
  VectorXd z(static_cast<Index>(parts_.cols));
  const bool one = parts_.gamma.size() == 1;
  for (int64_t i = 0; i < x.rows; ++i) {
    z.setZero();
    for (int64_t e = x.row_start[static_cast<size_t>(i)]; e < x.row_start[static_cast<size_t>(i) + 1]; ++e) {
      z[x.column[static_cast<size_t>(e)]] = x.value[static_cast<size_t>(e)];
    }
    if (parts_.mean.size() > 0) z = (z - parts_.mean).cwiseQuotient(parts_.deviation);
    double value = parts_.offset;
    if (parts_.units > 0) {
      const auto units = static_cast<Index>(parts_.units), inputs = z.size();
      const Eigen::Map<const Eigen::MatrixXd> w(parts_.weights.data(), units, inputs);
      const VectorXd hidden = (w * z + parts_.weights.segment(units * inputs, units)).array().tanh();
      value += hidden.dot(parts_.weights.segment(units * (inputs + 1), units)) + parts_.weights[units * (inputs + 2)];
    } else if (parts_.gamma.size() == 0) {
      value += parts_.weights.dot(z);
    } else {
      Eigen::ArrayXd distance = Eigen::ArrayXd::Zero(parts_.points.rows());
      for (Index j = 0; j < z.size(); ++j) {
        distance += parts_.gamma[one ? 0 : j] * (parts_.points.col(j).array() - z[j]).square();
      }
      value += parts_.weights.dot((-distance).exp().matrix());
    }
    out[static_cast<Index>(i)] = value;
  }
  return out;
}

absl::StatusOr<Predictions> RegressionModel::Predict(const DataFile& data) const {
  Predictions out;
  LUTHIER_ASSIGN_OR_RETURN(const data::RawRows rows, Read(data, &out.notes));
  for (const double value : Values(rows.x)) {
    out.label.push_back(study::FormatDouble(value));
    out.value.emplace_back();
  }
  return out;
}

absl::StatusOr<Evaluation> RegressionModel::Evaluate(const DataFile& data) const {
  Evaluation out;
  LUTHIER_ASSIGN_OR_RETURN(const data::RawRows rows, Read(data, &out.notes));
  if (rows.label.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(data.path, ": has no targets to compare with"));
  }
  const VectorXd predicted = Values(rows.x);
  VectorXd target(predicted.size());
  for (Index i = 0; i < target.size(); ++i) {
    const std::string& text = rows.label[static_cast<size_t>(i)];
    if (!notation::ParseNumber(text, &target[i]) || !std::isfinite(target[i])) {
      return absl::InvalidArgumentError(
          absl::StrCat(data.path, ": row ", i + 1, " of the data: target ", base::Quote(text), " is not a number"));
    }
  }
  const VectorXd error = predicted - target;
  const double n = static_cast<double>(target.size());
  const double variation = (target.array() - target.mean()).square().sum();
  out.metrics["rows"] = n;
  out.metrics["loss"] = error.squaredNorm() / n;
  out.metrics["rmse"] = std::sqrt(error.squaredNorm() / n);
  out.metrics["mae"] = error.lpNorm<1>() / n;
  out.metrics["r2"] = variation > 0.0 ? 1.0 - error.squaredNorm() / variation : error.isZero(0.0) ? 1.0 : 0.0;
  return out;
}

}  // namespace luthier::model
