#include "bench/lab/crf/meta_descent.h"

#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::crf::lab {

using Eigen::VectorXd;

MetaDescent::MetaDescent(Eigen::Index dim, const Options& options)
    : options_(options),
      x_(VectorXd::Zero(dim)),
      rates_(VectorXd::Constant(dim, options.rate)),
      v_(VectorXd::Zero(dim)) {
  LUTHIER_CHECK(options.rate > 0.0 && options.meta_rate >= 0.0 && options.memory >= 0.0 && options.memory <= 1.0);
}

void MetaDescent::StartAt(VectorXd x) {
  LUTHIER_CHECK(x.size() == x_.size());
  x_ = std::move(x);
}

absl::StatusOr<bool> MetaDescent::Step(Gradient gradient, HessianProduct product) {
  VectorXd g;
  LUTHIER_ASSIGN_OR_RETURN(const double value, gradient(x_, &g));
  if (!std::isfinite(value) || !g.allFinite()) return false;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd hv, product(x_, v_));
  if (!hv.allFinite()) return false;
  VectorXd rates = rates_.array() * (1.0 - options_.meta_rate * g.array() * v_.array()).max(0.5);
  VectorXd next = x_ - rates.cwiseProduct(g);
  if (!next.allFinite()) return false;
  rates_ = std::move(rates);
  x_ = std::move(next);
  v_ = options_.memory * v_ - rates_.cwiseProduct(g + options_.memory * hv);
  return true;
}

void MetaDescent::Save(base::CheckpointWriter* writer) const {
  writer->Vector(x_);
  writer->Vector(rates_);
  writer->Vector(v_);
}

bool MetaDescent::Load(base::CheckpointReader* reader) {
  const Eigen::Index dim = x_.size();
  x_ = reader->Vector();
  rates_ = reader->Vector();
  v_ = reader->Vector();
  return reader->ok() && x_.size() == dim && rates_.size() == dim && v_.size() == dim;
}

}  // namespace luthier::crf::lab
