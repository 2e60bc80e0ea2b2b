#include "lib/crf/solvers/problem.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/blocked_sum.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {

using Eigen::VectorXd;

// The sequences that one thread sums over, and its scratch.
struct ChainLoss::Part {
  Part(const ChainData& data, int64_t first, int64_t last, int64_t longest, const Kernels& kernels)
      : begin(first), end(last), inference(data.labels(), longest, kernels) {}

  int64_t begin, end;  // Sequences.
  ChainInference inference;
  AlignedDoubles gradient;  // Empty until needed.
};

ChainLoss::ChainLoss(const ChainData* data, int threads, const Kernels& kernels)
    : data_(data), kernels_(kernels), w_(data->shape().dim()) {
  LUTHIER_CHECK(threads >= 1 && threads <= 256);
  int64_t begin = 0;
  for (int p = 0; p < threads; ++p) {
    const int64_t tokens = data->tokens() * (p + 1) / threads;
    int64_t end = begin;
    while (end < data->sequences() && data->sequence_start[static_cast<size_t>(end)] < tokens) ++end;
    if (p + 1 == threads) end = data->sequences();
    parts_.push_back(std::make_shared<Part>(*data, begin, end, data->longest(), kernels));
    begin = end;
  }
}

absl::StatusOr<double> ChainLoss::Sum(ChainInference& chain, const int32_t* rows, int64_t first, int64_t last,
                                      double* gradient, const base::StopToken& stop) {
  const Shape shape = data_->shape();
  const int stride = shape.stride();
  const int64_t ahead = Ahead(8 * dim());
  const int32_t* attribute = data_->attribute.data();
  double* transitions = gradient == nullptr ? nullptr : gradient + shape.transitions();
  chain.SetTransitions(w_.data() + shape.transitions());
  linear::BlockedSum sum;
  for (int64_t i = first; i < last; ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Sequence x = data_->At(rows == nullptr ? i : rows[i]);
    LUTHIER_RETURN_IF_ERROR(chain.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
      kernels_.gather(w_.data(), stride, attribute, data_->values(), x.token_start + begin, count, stride, ahead,
                      chain.scores() + begin * stride);
    }));
    LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain.Forward(x.tokens, stop));
    sum.Add(log_z - chain.Score(x.label, x.tokens));
    if (gradient == nullptr) continue;
    LUTHIER_RETURN_IF_ERROR(chain.Backward(stop));
    chain.SubtractLabeling(x.label);
    kernels_.scatter(gradient, stride, 1.0, attribute, data_->values(), x.token_start, x.tokens, stride, ahead,
                     chain.marginals());
    kernels_.add_scaled(transitions, 1.0, chain.edge_sums(), int64_t{shape.labels} * stride, transitions);
  }
  return sum.Total();
}

absl::StatusOr<double> ChainLoss::AddSubset(const int32_t* rows, int64_t count, const VectorXd& w, VectorXd* gradient,
                                            const base::StopToken& stop) {
  LUTHIER_CHECK(w.size() == dim() && gradient->size() == dim());
  std::copy_n(w.data(), w.size(), w_.data());
  return Sum(parts_[0]->inference, rows, 0, count, gradient->data(), stop);
}

absl::StatusOr<double> ChainLoss::Value(const VectorXd& w, VectorXd* gradient, const base::StopToken& stop) {
  LUTHIER_CHECK(w.size() == dim());
  std::copy_n(w.data(), w.size(), w_.data());
  std::vector<absl::StatusOr<double>> value(parts_.size());
  const auto work = [&](size_t p) {
    Part& part = *parts_[p];
    if (gradient != nullptr) {
      if (part.gradient.size() == 0) part.gradient = AlignedDoubles(dim());
      std::fill_n(part.gradient.data(), dim(), 0.0);
    }
    double* sum = gradient == nullptr ? nullptr : part.gradient.data();
    value[p] = Sum(part.inference, nullptr, part.begin, part.end, sum, stop);
  };
  std::vector<std::thread> threads;
  for (size_t p = 1; p < parts_.size(); ++p) threads.emplace_back(work, p);
  work(0);
  for (std::thread& thread : threads) thread.join();
  double total = 0.0;
  for (const absl::StatusOr<double>& v : value) {
    LUTHIER_RETURN_IF_ERROR(v.status());
    total += *v;
  }
  if (gradient != nullptr) {
    *gradient = Eigen::Map<const VectorXd>(parts_[0]->gradient.data(), dim());
    for (size_t p = 1; p < parts_.size(); ++p) {
      *gradient += Eigen::Map<const VectorXd>(parts_[p]->gradient.data(), dim());
    }
  }
  return total;
}

VectorXd ChainLoss::HessianVector(const VectorXd& w, const VectorXd& v) {
  return HessianSum(nullptr, data_->sequences(), w, v, {}).value();
}

absl::StatusOr<VectorXd> ChainLoss::SubsetHessianVector(const int32_t* rows, int64_t count, const VectorXd& w,
                                                        const VectorXd& v, const base::StopToken& stop) {
  return HessianSum(rows, count, w, v, stop);
}

absl::StatusOr<VectorXd> ChainLoss::HessianSum(const int32_t* rows, int64_t count, const VectorXd& w, const VectorXd& v,
                                               const base::StopToken& stop) {
  LUTHIER_CHECK(w.size() == dim() && v.size() == dim());
  const Shape shape = data_->shape();
  const int stride = shape.stride();
  ChainInference& chain = parts_[0]->inference;
  const int64_t ahead = Ahead(8 * dim());
  VectorXd product = VectorXd::Zero(dim());
  AlignedDoubles du(data_->longest() * stride), dq(data_->longest() * stride), dg(int64_t{shape.labels} * stride);
  chain.SetTransitions(w.data() + shape.transitions());
  for (int64_t i = 0; i < count; ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Sequence x = data_->At(rows == nullptr ? i : rows[i]);
    const int32_t* attribute = data_->attribute.data();
    LUTHIER_RETURN_IF_ERROR(chain.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t tokens) {
      const int64_t* start = x.token_start + begin;
      const int64_t row = begin * stride;
      kernels_.gather(w.data(), stride, attribute, data_->values(), start, tokens, stride, ahead, chain.scores() + row);
      kernels_.gather(v.data(), stride, attribute, data_->values(), start, tokens, stride, ahead, du.data() + row);
    }));
    LUTHIER_RETURN_IF_ERROR(chain.Forward(x.tokens, stop).status());
    if (chain.in_logarithms()) return VectorXd(VectorXd::Constant(dim(), NAN));
    LUTHIER_RETURN_IF_ERROR(chain.Backward(stop));
    LUTHIER_RETURN_IF_ERROR(chain.Tangent(du.data(), v.data() + shape.transitions(), dq.data(), dg.data(), stop));
    kernels_.scatter(product.data(), stride, 1.0, attribute, data_->values(), x.token_start, x.tokens, stride, ahead,
                     dq.data());
    double* transitions = product.data() + shape.transitions();
    kernels_.add_scaled(transitions, 1.0, dg.data(), dg.size(), transitions);
  }
  return product;
}

absl::StatusOr<VectorXd> ChainLoss::TokenVariances(const VectorXd& w, const base::StopToken& stop) {
  LUTHIER_CHECK(w.size() == dim());
  const Shape shape = data_->shape();
  const int stride = shape.stride();
  ChainInference& chain = parts_[0]->inference;
  const int64_t ahead = Ahead(8 * dim());
  VectorXd sums = VectorXd::Zero(dim());
  chain.SetTransitions(w.data() + shape.transitions());
  for (int64_t i = 0; i < data_->sequences(); ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const Sequence x = data_->At(i);
    LUTHIER_RETURN_IF_ERROR(chain.ByPieces(x.tokens, stop, [&](int64_t begin, int64_t count) {
      kernels_.gather(w.data(), stride, data_->attribute.data(), data_->values(), x.token_start + begin, count, stride,
                      ahead, chain.scores() + begin * stride);
    }));
    LUTHIER_RETURN_IF_ERROR(chain.Forward(x.tokens, stop).status());
    LUTHIER_RETURN_IF_ERROR(chain.Backward(stop));
    double* q = chain.marginals();
    for (int64_t k = 0; k < x.tokens * stride; ++k) q[k] = std::max(0.0, q[k] * (1.0 - q[k]));
    for (int64_t t = 0; t < x.tokens; ++t) {
      for (int64_t e = x.token_start[t]; e < x.token_start[t + 1]; ++e) {
        const auto at = static_cast<size_t>(e);
        const double value = data_->Value(at);
        sums.segment(int64_t{data_->attribute[at]} * stride, stride) +=
            value * value * Eigen::Map<const VectorXd>(q + t * stride, stride);
      }
    }
    // The mean probability of a pair of labels over the sequence stands for the probability at each place.
    const double places = static_cast<double>(x.tokens - 1);
    if (places < 1.0) continue;
    const double* g = chain.edge_sums();
    for (int64_t k = 0; k < int64_t{shape.labels} * stride; ++k) {
      sums[shape.transitions() + k] += std::max(0.0, g[k] * (1.0 - g[k] / places));
    }
  }
  return sums;
}

absl::StatusOr<ChainLoss::Metrics> ChainLoss::Evaluate(const VectorXd& w, std::vector<int32_t>* guesses,
                                                       const base::StopToken& stop) {
  LUTHIER_CHECK(w.size() == dim());
  std::copy_n(w.data(), w.size(), w_.data());
  const Shape shape = data_->shape();
  ChainInference& chain = parts_[0]->inference;
  chain.SetTransitions(w_.data() + shape.transitions());
  std::vector<std::string> names = data_->label_names;
  names.insert(names.end(), data_->unknown_names.begin(), data_->unknown_names.end());
  SegmentScorer scorer(names);
  std::vector<int32_t> guess(static_cast<size_t>(data_->longest()));
  linear::BlockedSum loss;
  int64_t right = 0;
  int64_t logarithms = 0;
  Metrics metrics;
  for (int64_t i = 0; i < data_->sequences(); ++i) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const int64_t first = data_->sequence_start[static_cast<size_t>(i)];
    const int64_t tokens = data_->length(i);
    const int32_t* label = data_->label.data() + first;
    LUTHIER_RETURN_IF_ERROR(chain.ByPieces(tokens, stop, [&](int64_t begin, int64_t count) {
      kernels_.gather(w_.data(), shape.stride(), data_->attribute.data(), data_->values(),
                      data_->token_start.data() + first + begin, count, shape.stride(), Ahead(8 * dim()),
                      chain.scores() + begin * shape.stride());
    }));
    LUTHIER_ASSIGN_OR_RETURN(const double log_z, chain.Forward(tokens, stop));
    if (std::all_of(label, label + tokens, [&](int32_t k) { return k < shape.labels; })) {
      loss.Add(log_z - chain.Score(label, tokens));
      metrics.known_tokens += tokens;
    } else {
      ++metrics.left_out;
    }
    logarithms += chain.in_logarithms() ? 1 : 0;
    LUTHIER_RETURN_IF_ERROR(chain.Viterbi(tokens, guess.data(), stop));
    for (int64_t t = 0; t < tokens; ++t) right += guess[static_cast<size_t>(t)] == label[t] ? 1 : 0;
    scorer.Add(label, guess.data(), tokens);
    if (guesses != nullptr) guesses->insert(guesses->end(), guess.begin(), guess.begin() + tokens);
  }
  metrics.tokens = data_->tokens();
  metrics.loss_nats = loss.Total() / static_cast<double>(std::max<int64_t>(metrics.known_tokens, 1));
  metrics.accuracy = static_cast<double>(right) / static_cast<double>(metrics.tokens);
  metrics.log_space_share = static_cast<double>(logarithms) / static_cast<double>(data_->sequences());
  metrics.segments = scorer.scores();
  return metrics;
}

absl::StatusOr<double> ChainProblem::Value(const VectorXd& w, VectorXd* gradient, const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(const double loss, loss_->Value(w, gradient, stop));
  if (gradient != nullptr) *gradient += l2_ * w;
  return loss + 0.5 * l2_ * w.squaredNorm();
}

VectorXd ChainProblem::HessianVector(const VectorXd& w, const VectorXd& v) const {
  return loss_->HessianVector(w, v) + l2_ * v;
}

double SmallestSubgradient(const VectorXd& w, const VectorXd& gradient, const L1Penalty& l1, int stride) {
  double largest = 0.0;
  for (Eigen::Index j = 0; j < w.size(); ++j) {
    const double penalty = l1.Of(j / stride);
    const double entry = w[j] > 0.0   ? std::abs(gradient[j] + penalty)
                         : w[j] < 0.0 ? std::abs(gradient[j] - penalty)
                                      : std::max(0.0, std::abs(gradient[j]) - penalty);
    if (!(entry <= largest)) largest = entry;  // Keeps NaN.
  }
  return largest;
}

}  // namespace luthier::crf
