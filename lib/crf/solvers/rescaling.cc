#include "lib/crf/solvers/rescaling.h"

namespace luthier::crf {

using Eigen::VectorXd;

void Rescaling::ToWeights(int stride, int64_t apart, double* rows) const {
  for (Eigen::Index a = 0; a < ratio_.size(); ++a) {
    for (int k = 0; k < stride; ++k) rows[a * apart + k] /= ratio_[a];
  }
}

void Rescaling::ToGradients(int stride, int64_t apart, double* rows) const {
  for (Eigen::Index a = 0; a < ratio_.size(); ++a) {
    for (int k = 0; k < stride; ++k) rows[a * apart + k] *= ratio_[a];
  }
}

void Rescaling::ToConstants(const ChainData& data, stochastic::Sampler* sampler) const {
  if (!any()) return;
  for (int64_t i = 0; i < data.sequences(); ++i) {
    if (!sampler->is_seen(i)) continue;
    const Sequence x = data.At(i);
    double now = static_cast<double>(x.tokens - 1), before = now;
    for (int64_t e = x.token_start[0]; e < x.token_start[x.tokens]; ++e) {
      const double value = data.Value(static_cast<size_t>(e));
      const double other = value / ratio_[data.attribute[static_cast<size_t>(e)]];
      now += value * value;
      before += other * other;
    }
    if (before > 0.0) sampler->SetConstant(i, sampler->constant(i) * (now / before));
  }
}

std::optional<VectorXd> LoadWeights(base::CheckpointReader* reader, const Shape& shape, const Rescaling& rescaling) {
  VectorXd w = reader->Vector();
  if (!reader->ok() || w.size() != shape.dim() || !w.allFinite()) return std::nullopt;
  rescaling.ToWeights(shape.stride(), shape.stride(), w.data());
  return w;
}

}  // namespace luthier::crf
