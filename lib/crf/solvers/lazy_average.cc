#include "lib/crf/solvers/lazy_average.h"

#include <cmath>

#include "lib/crf/solvers/checkpoint_arrays.h"

namespace luthier::crf {

using Eigen::VectorXd;

LazyAverage::LazyAverage(const ChainData* chains)
    : data(chains),
      stride(chains->shape().stride()),
      rows(int64_t{2} * chains->attributes * stride),
      row_progress(chains->attributes),
      v_transitions(int64_t{chains->labels()} * stride),
      d_transitions(v_transitions.size()) {}

void LazyAverage::Flush() {
  for (int64_t a = 0; a < data->attributes; ++a) {
    double* v = rows.data() + 2 * a * stride;
    const double behind = progress - row_progress.data()[a];
    for (int k = 0; k < stride; ++k) v[k] = beta * (v[k] - behind * v[stride + k]);
    row_progress.data()[a] = 0.0;
  }
  for (int64_t k = 0; k < v_transitions.size(); ++k) v_transitions.data()[k] *= beta;
  beta = 1.0;
  progress = 0.0;
}

void LazyAverage::CopyWeights(VectorXd* w) const {
  const Shape shape = data->shape();
  w->resize(shape.dim());
  double* to = w->data();
  for (int64_t a = 0; a < shape.attributes; ++a) {
    const double* v = rows.data() + 2 * a * stride;
    const double behind = progress - row_progress.data()[a];
    for (int k = 0; k < stride; ++k) to[a * stride + k] = beta * (v[k] - behind * v[stride + k]);
  }
  for (int64_t k = 0; k < v_transitions.size(); ++k) to[shape.transitions() + k] = beta * v_transitions.data()[k];
}

double LazyAverage::LargestGradientEntry(double l2) const {
  double largest = 0.0;
  const auto look = [&](double entry) {
    if (!(std::abs(entry) <= largest)) largest = std::abs(entry);  // Keeps NaN.
  };
  for (int64_t a = 0; a < data->attributes; ++a) {
    const double* v = rows.data() + 2 * a * stride;
    const double* d = v + stride;
    const double behind = progress - row_progress.data()[a];
    for (int k = 0; k < stride; ++k) look(d[k] + l2 * (beta * (v[k] - behind * d[k])));
  }
  for (int64_t k = 0; k < d_transitions.size(); ++k) {
    look(d_transitions.data()[k] + l2 * (beta * v_transitions.data()[k]));
  }
  return largest;
}

bool LazyAverage::GradientWithin(double l2, double bound) const {
  for (int64_t k = 0; k < d_transitions.size(); ++k) {
    if (!(std::abs(d_transitions.data()[k] + l2 * (beta * v_transitions.data()[k])) <= bound)) return false;
  }
  for (int64_t a = 0; a < data->attributes; ++a) {
    const double* v = rows.data() + 2 * a * stride;
    const double* d = v + stride;
    const double behind = progress - row_progress.data()[a];
    for (int k = 0; k < stride; ++k) {
      if (!(std::abs(d[k] + l2 * (beta * (v[k] - behind * d[k]))) <= bound)) return false;
    }
  }
  return true;
}

void LazyAverage::Save(base::CheckpointWriter* writer) const {
  for (const AlignedDoubles* x : {&rows, &row_progress, &v_transitions, &d_transitions}) SaveArray(*x, writer);
  writer->F64(beta);
  writer->F64(progress);
}

bool LazyAverage::Load(base::CheckpointReader* reader) {
  bool fits = true;
  for (AlignedDoubles* x : {&rows, &row_progress, &v_transitions, &d_transitions}) fits = fits && LoadArray(reader, x);
  beta = reader->F64();
  progress = reader->F64();
  return fits && reader->ok();
}

}  // namespace luthier::crf
