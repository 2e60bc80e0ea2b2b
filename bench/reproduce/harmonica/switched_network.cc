#include "bench/reproduce/harmonica/switched_network.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/random.h"

namespace luthier::reproduce {
namespace {

using Eigen::Index;
using Eigen::MatrixXf;
using Eigen::RowVectorXf;
using Eigen::VectorXf;

constexpr const char* kSwitches[] = {
    // Preparation of the features.
    "standardize", "logarithm", "binarize", "clip", "drop_capitals", "drop_characters", "unit_rows", "half_words",
    "balance",
    // Architecture. Two bits choose relu, tanh, the logistic function or sine.
    "wide", "second_layer", "activation1", "activation2", "skip", "hidden_bias", "batch_norm", "residual",
    // Initialization.
    "init_small", "init_he", "zero_output",
    // Optimizer. Two bits choose SGD, momentum, Adam or RMSprop; three the step.
    "optimizer1", "optimizer2", "rate1", "rate2", "rate3", "cosine", "warmup", "small_batch", "nesterov",
    "clip_gradient", "shuffle",
    // Regularization.
    "weight_decay", "strong_decay", "l1", "dropout", "label_smoothing", "squared_loss", "average_weights",
    "input_noise"};
static_assert(std::size(kSwitches) == 39);

class Switches {
 public:
  explicit Switches(const study::Parameters& values) : values_(values) {}
  bool operator[](const char* name) const { return std::get<bool>(values_.at(name)); }
  int Choice(std::initializer_list<const char*> names) const {
    int choice = 0;
    for (const char* name : names) choice = 2 * choice + ((*this)[name] ? 1 : 0);
    return choice;
  }

 private:
  const study::Parameters& values_;
};

// Columns of the spam data: 48 word frequencies, 6 character frequencies, 3 lengths of runs of capitals.
void Prepare(const Switches& on, const std::vector<MatrixXf*>& parts) {
  for (MatrixXf* x : parts) {
    const Index characters = std::min<Index>(48, x->cols());
    const Index capitals = std::min<Index>(54, x->cols());
    if (on["drop_characters"]) x->middleCols(characters, capitals - characters).setZero();
    if (on["drop_capitals"]) x->rightCols(x->cols() - capitals).setZero();
    if (on["half_words"]) {
      for (Index j = 0; j < characters; j += 2) x->col(j).setZero();
    }
    if (on["logarithm"]) *x = (x->array().max(0.0f) + 0.1f).log().matrix();
    if (on["binarize"]) {
      const float threshold = on["logarithm"] ? std::log(0.1f) : 0.0f;
      *x = (x->array() > threshold).select(MatrixXf::Ones(x->rows(), x->cols()), 0.0f);
    }
  }
  if (on["standardize"]) {
    const MatrixXf& train = *parts.front();
    const RowVectorXf mean = train.colwise().mean();
    const RowVectorXf deviation = ((train.rowwise() - mean).array().square().colwise().mean() + 1e-6f).sqrt();
    for (MatrixXf* x : parts) {
      *x = ((x->rowwise() - mean).array().rowwise() / deviation.array()).matrix();
    }
  }
  for (MatrixXf* x : parts) {
    if (on["clip"]) *x = x->cwiseMax(-3.0f).cwiseMin(3.0f);
    if (on["unit_rows"]) {
      for (Index i = 0; i < x->rows(); ++i) x->row(i) /= std::max(x->row(i).norm(), 1e-6f);
    }
  }
}

MatrixXf Activate(int kind, const MatrixXf& z) {
  switch (kind) {
    case 0:
      return z.cwiseMax(0.0f);
    case 1:
      return z.array().tanh().matrix();
    case 2:
      return (1.0f / (1.0f + (-z.array()).exp())).matrix();
    default:
      return z.array().sin().matrix();
  }
}

MatrixXf Slope(int kind, const MatrixXf& z) {
  switch (kind) {
    case 0:
      return (z.array() > 0.0f).cast<float>().matrix();
    case 1:
      return (1.0f - z.array().tanh().square()).matrix();
    case 2: {
      const MatrixXf s = Activate(2, z);
      return (s.array() * (1.0f - s.array())).matrix();
    }
    default:
      return z.array().cos().matrix();
  }
}

// out = [x W_skip] + h W_out + b; h: one or two hidden layers.
class Network {
 public:
  Network(const Switches& on, Index features, base::RandomStream* random)
      : kind_(on.Choice({"activation1", "activation2"})),
        layers_(on["second_layer"] ? 2 : 1),
        bias_(on["hidden_bias"]),
        norm_(on["batch_norm"]),
        residual_(on["residual"]),
        skip_(on["skip"]) {
    const Index hidden = on["wide"] ? 24 : 8;
    const auto layer = [&](Index in, Index out, bool zero) {
      const float scale =
          zero ? 0.0f
               : std::sqrt((on["init_he"] ? 2.0f : 1.0f) / static_cast<float>(in)) * (on["init_small"] ? 0.1f : 1.0f);
      MatrixXf weights(in, out);
      for (float& w : weights.reshaped()) w = scale * static_cast<float>(random->Normal());
      parameters.push_back(weights);
      parameters.push_back(MatrixXf::Zero(1, out));
    };
    layer(features, hidden, false);
    layer(hidden, hidden, false);
    layer(hidden, 1, on["zero_output"]);
    parameters.push_back(MatrixXf::Zero(features, 1));
  }

  struct Pass {
    MatrixXf x, mask[2], normal[2], z[2], h[2];
    RowVectorXf deviation[2];
    VectorXf out;
  };
  // `keep`: of a hidden unit, with dropout; 1 otherwise. Normalization is by the batch.
  Pass Forward(const MatrixXf& x, float keep, base::RandomStream* random) const {
    Pass p;
    p.x = x;
    const MatrixXf* in = &p.x;
    for (int l = 0; l < layers_; ++l) {
      MatrixXf z = *in * parameters[2 * l];
      if (bias_) z.rowwise() += RowVectorXf(parameters[2 * l + 1]);
      if (norm_) {
        const RowVectorXf mean = z.colwise().mean();
        z.rowwise() -= mean;
        p.deviation[l] = (z.array().square().colwise().mean() + 1e-4f).sqrt();
        z = (z.array().rowwise() / p.deviation[l].array()).matrix();
        p.normal[l] = z;
      }
      p.z[l] = z;
      p.h[l] = Activate(kind_, z);
      if (keep < 1.0f) {
        p.mask[l].resize(z.rows(), z.cols());
        for (float& m : p.mask[l].reshaped()) m = random->Uniform() < keep ? 1.0f / keep : 0.0f;
        p.h[l].array() *= p.mask[l].array();
      }
      if (l == 1 && residual_) p.h[1] += p.h[0];
      in = &p.h[l];
    }
    p.out = *in * parameters[4];
    p.out.array() += parameters[5](0, 0);
    if (skip_) p.out += x * parameters[6];
    return p;
  }
  // Gradients for d loss / d out.
  std::vector<MatrixXf> Backward(const Pass& p, const VectorXf& slope) const {
    std::vector<MatrixXf> gradient;
    for (const MatrixXf& w : parameters) gradient.push_back(MatrixXf::Zero(w.rows(), w.cols()));
    gradient[4] = p.h[layers_ - 1].transpose() * slope;
    gradient[5](0, 0) = slope.sum();
    if (skip_) gradient[6] = p.x.transpose() * slope;
    MatrixXf back = slope * parameters[4].transpose();
    for (int l = layers_ - 1; l >= 0; --l) {
      MatrixXf d = back;
      if (p.mask[l].size() > 0) d.array() *= p.mask[l].array();
      d.array() *= Slope(kind_, p.z[l]).array();
      if (norm_) {
        const RowVectorXf mean = d.colwise().mean();
        const RowVectorXf along = (d.array() * p.normal[l].array()).colwise().mean();
        d.rowwise() -= mean;
        d -= (p.normal[l].array().rowwise() * along.array()).matrix();
        d = (d.array().rowwise() / p.deviation[l].array()).matrix();
      }
      const MatrixXf& in = l == 0 ? p.x : p.h[0];
      gradient[2 * l] = in.transpose() * d;
      if (bias_) gradient[2 * l + 1] = d.colwise().sum();
      if (l == 1)
        back = MatrixXf(d * parameters[2].transpose()) + (residual_ ? back : MatrixXf::Zero(d.rows(), d.cols()));
    }
    return gradient;
  }

  std::vector<MatrixXf> parameters;

 private:
  int kind_, layers_;
  bool bias_, norm_, residual_, skip_;
};

}  // namespace

SwitchedNetwork::SwitchedNetwork(const data::Dataset& data, int train, uint64_t seed) : seed_(seed) {
  std::vector<int64_t> rows(static_cast<size_t>(data.x.rows));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  base::RandomStream random(seed, "network/split");
  random.Shuffle(rows);
  LUTHIER_CHECK(data.x.rows > 2 * train && data.num_classes() == 2);
  const auto take = [&](size_t from, size_t to, Part* part) {
    part->x = MatrixXf::Zero(static_cast<Index>(to - from), data.x.cols);
    part->label.resize(static_cast<Index>(to - from));
    for (size_t i = from; i < to; ++i) {
      const auto row = static_cast<size_t>(rows[i]);
      const auto at = static_cast<Index>(i - from);
      for (int64_t e = data.x.row_start[row]; e < data.x.row_start[row + 1]; ++e) {
        part->x(at, data.x.column[static_cast<size_t>(e)]) = static_cast<float>(data.x.value[static_cast<size_t>(e)]);
      }
      part->label[at] = static_cast<float>(data.label[row]);
    }
  };
  const auto size = static_cast<size_t>(train);
  take(0, size, &train_);
  take(size, 2 * size, &validation_);
  take(2 * size, rows.size(), &test_);
}

study::SearchSpace SwitchedNetwork::Space() {
  std::vector<study::ParameterSpec> parameters;
  for (const char* name : kSwitches) parameters.push_back({name, study::BoolSwitch{}, std::nullopt, std::nullopt});
  for (int k = 0; k < kDummies; ++k) {
    parameters.push_back({absl::StrCat("dummy", k), study::BoolSwitch{}, std::nullopt, std::nullopt});
  }
  return *study::SearchSpace::Create(std::move(parameters));
}

std::vector<SwitchedNetwork::Errors> SwitchedNetwork::Train(const study::Parameters& switches, int epochs) const {
  const Switches on(switches);
  base::RandomStream random(seed_, "network/train");
  MatrixXf x = train_.x;
  MatrixXf validation = validation_.x;
  MatrixXf test;
  std::vector<MatrixXf*> parts = {&x, &validation};
  if (epochs == kEpochs) {
    test = test_.x;
    parts.push_back(&test);
  }
  Prepare(on, parts);
  Network network(on, x.cols(), &random);
  const auto count = static_cast<int>(x.rows());
  const int batch = on["small_batch"] ? 16 : 80;
  const int per_epoch = count / batch;
  const int steps = kEpochs * per_epoch;
  const double rate = std::pow(10.0, -3.5 + 0.5 * on.Choice({"rate1", "rate2", "rate3"}));
  const int optimizer = on.Choice({"optimizer1", "optimizer2"});
  const float decay = !on["weight_decay"] ? 0.0f : on["strong_decay"] ? 0.1f : 1e-3f;
  const float positive = train_.label.mean();
  std::vector<MatrixXf> first, second, average;
  for (const MatrixXf& w : network.parameters) {
    first.push_back(MatrixXf::Zero(w.rows(), w.cols()));
    second.push_back(first.back());
    average.push_back(first.back());
  }
  std::vector<Index> order(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) order[static_cast<size_t>(i)] = i;
  int averaged = 0;
  std::vector<Errors> curve;
  const auto measure = [&] {
    Network now = network;
    if (on["average_weights"] && averaged > 0) {
      for (size_t k = 0; k < average.size(); ++k) now.parameters[k] = average[k] / static_cast<float>(averaged);
    }
    const auto error = [&](const MatrixXf& features, const VectorXf& label) {
      const VectorXf out = now.Forward(features, 1.0f, &random).out;
      if (!out.allFinite()) return std::numeric_limits<double>::quiet_NaN();
      const Index wrong = ((out.array() > 0.0f).cast<float>() != label.array()).count();
      return 100.0 * static_cast<double>(wrong) / static_cast<double>(out.size());
    };
    curve.push_back({error(validation, validation_.label), std::nullopt});
    if (static_cast<int>(curve.size()) == kEpochs) curve.back().test = error(test, test_.label);
  };
  for (int step = 0; step < epochs * per_epoch; ++step) {
    const int at = step % per_epoch * batch;
    if (at == 0 && on["shuffle"]) random.Shuffle(order);
    const std::vector<Index> rows(order.begin() + at, order.begin() + at + batch);
    MatrixXf input = x(rows, Eigen::all);
    if (on["input_noise"]) {
      for (float& v : input.reshaped()) v += 0.3f * static_cast<float>(random.Normal());
    }
    const Network::Pass pass = network.Forward(input, on["dropout"] ? 0.5f : 1.0f, &random);
    VectorXf slope(batch);
    for (int i = 0; i < batch; ++i) {
      const float y = train_.label[rows[static_cast<size_t>(i)]];
      const float target = on["label_smoothing"] ? 0.1f + 0.8f * y : y;
      slope[i] =
          on["squared_loss"] ? pass.out[i] - (2.0f * target - 1.0f) : 1.0f / (1.0f + std::exp(-pass.out[i])) - target;
      if (on["balance"]) slope[i] *= 0.5f / (y > 0.5f ? positive : 1.0f - positive);
    }
    std::vector<MatrixXf> gradient = network.Backward(pass, slope / static_cast<float>(batch));
    if (on["clip_gradient"]) {
      float square = 0.0f;
      for (const MatrixXf& g : gradient) square += g.squaredNorm();
      if (square > 1.0f) {
        for (MatrixXf& g : gradient) g /= std::sqrt(square);
      }
    }
    double now = rate;
    if (on["cosine"]) now *= 0.5 * (1.0 + std::cos(M_PI * step / steps));
    if (on["warmup"]) now *= std::min(1.0, (step + 1.0) / (0.2 * steps));
    const auto s = static_cast<float>(now);
    for (size_t k = 0; k < gradient.size(); ++k) {
      MatrixXf& w = network.parameters[k];
      MatrixXf& g = gradient[k];
      if (on["l1"]) g += 1e-3f * w.cwiseSign();
      const auto t = static_cast<float>(step + 1);
      switch (optimizer) {
        case 0:
          w -= s * g;
          break;
        case 1:
          first[k] = 0.9f * first[k] + g;
          w -= s * (on["nesterov"] ? MatrixXf(0.9f * first[k] + g) : first[k]);
          break;
        case 2:
          first[k] = 0.9f * first[k] + 0.1f * g;
          second[k] = 0.999f * second[k] + 0.001f * g.cwiseAbs2();
          w -= (s / (1.0f - std::pow(0.9f, t)) * first[k].array() /
                ((second[k].array() / (1.0f - std::pow(0.999f, t))).sqrt() + 1e-8f))
                   .matrix();
          break;
        default:
          second[k] = 0.9f * second[k] + 0.1f * g.cwiseAbs2();
          w -= (s * g.array() / (second[k].array().sqrt() + 1e-8f)).matrix();
      }
      w *= 1.0f - s * decay;
      if (on["average_weights"] && 2 * step >= steps) average[k] += w;
    }
    if (2 * step >= steps) ++averaged;
    if ((step + 1) % per_epoch == 0) measure();
  }
  return curve;
}

}  // namespace luthier::reproduce
