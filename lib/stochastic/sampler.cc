#include "lib/stochastic/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/random.h"

namespace luthier::stochastic {
namespace {

constexpr double kMaxConstant = 1e100;  // Bound so that no sum overflows.

bool IsPureLipschitz(Sampling sampling) {
  return sampling == Sampling::kLipschitz || sampling == Sampling::kLipschitzLiteral ||
         sampling == Sampling::kLipschitzPort;
}

}  // namespace

const std::vector<std::string>& SamplingNames() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"u", "rp", "cyclic", "cyclic2", "pl", "ms", "pl_literal", "pl_port", "ms_unseen"};
  return names;
}

absl::StatusOr<Sampling> ParseSampling(absl::string_view name) {
  const std::vector<std::string>& names = SamplingNames();
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] == name) return static_cast<Sampling>(k);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no sampling ", base::Quote(name), "; there are ", absl::StrJoin(names, ", ")));
}

Sampling WithoutConstants(Sampling sampling) {
  const bool ordered =
      sampling == Sampling::kPermutation || sampling == Sampling::kCyclic || sampling == Sampling::kCyclic2;
  return ordered ? sampling : Sampling::kUniform;
}

bool SearchesAlways(Sampling sampling) {
  return sampling == Sampling::kLipschitzLiteral || sampling == Sampling::kLipschitzPort;
}

Sampler::Sampler(Sampling sampling, int64_t n, uint64_t seed, double first_constant, double lambda)
    : sampling_(sampling),
      seed_(seed),
      first_constant_(first_constant),
      lambda_(lambda),
      tree_(n),
      seen_(static_cast<size_t>(n), 0),
      block_(kBlock) {
  LUTHIER_CHECK(n <= INT32_MAX && first_constant > 0.0);
  if (IsPureLipschitz(sampling) || sampling == Sampling::kMixedUnseen) {
    unseen_.resize(static_cast<size_t>(n));
    std::iota(unseen_.begin(), unseen_.end(), 0);
  }
  if (sampling == Sampling::kCyclic2) {
    MakeOrder(0, 0);
    MakeOrder(1, 1);
  }
}

void Sampler::MakeOrder(int which, uint64_t index) {
  std::vector<int32_t>& order = order_[which];
  order.resize(static_cast<size_t>(size()));
  std::iota(order.begin(), order.end(), 0);
  base::RandomStream(seed_, "stochastic.order", index).Shuffle(order);
}

Sampler::Uniforms Sampler::NextUniforms() {
  const int64_t index = draws_ / kBlock;
  if (index != block_index_) {
    base::RandomStream stream(seed_, "stochastic.sampling", static_cast<uint64_t>(index));
    for (Uniforms& u : block_) {
      u.choice = stream.Uniform();
      u.place = stream.Uniform();
    }
    block_index_ = index;
  }
  return block_[static_cast<size_t>(draws_ % kBlock)];
}

Sampler::Draw Sampler::Visit(int64_t i, double scaled_probability) {
  ++draws_;
  Draw draw = {i, scaled_probability, !is_seen(i)};
  if (draw.first) {
    seen_[static_cast<size_t>(i)] = 1;
    ++seen_count_;
  }
  return draw;
}

// Draws an unseen example uniformly.
Sampler::Draw Sampler::VisitUnseen(double place, double scaled_probability) {
  const auto unseen = static_cast<size_t>(size() - seen_count_);
  const auto k = static_cast<size_t>(place * static_cast<double>(unseen));
  const int64_t i = unseen_[k];
  std::swap(unseen_[k], unseen_[unseen - 1]);
  if (sampling_ != Sampling::kLipschitzPort) unseen_.pop_back();
  return Visit(i, scaled_probability);
}

// Draws a seen example proportional to L_i + Lmean + 2 lambda: by a part of `place` as large as L_i's share of the sum
// by L_i, else uniformly.
Sampler::Draw Sampler::VisitPort(double place) {
  const auto seen = static_cast<double>(seen_count_);
  const double sum = tree_.sum(), each = sum / seen + 2.0 * lambda_;
  const double total = sum + seen * each, share = sum / total;
  int64_t i = 0;
  if (place < share) {
    i = tree_.Find(place / share);
  } else {
    const auto k = static_cast<size_t>((place - share) / (1.0 - share) * seen);
    i = unseen_[unseen_.size() - 1 - std::min(k, static_cast<size_t>(seen_count_ - 1))];
  }
  return Visit(i, seen * (tree_.weight(i) + each) / total);
}

Sampler::Draw Sampler::Next() {
  if (put_back_) return *std::exchange(put_back_, std::nullopt);
  const int64_t n = size();
  const double count = static_cast<double>(n);
  switch (sampling_) {
    case Sampling::kUniform:
      return Visit(static_cast<int64_t>(NextUniforms().place * count), 1.0);
    case Sampling::kCyclic:
      return Visit(draws_ % n, 1.0);
    case Sampling::kPermutation:
      if (order_index_ != draws_ / n) {
        order_index_ = draws_ / n;
        MakeOrder(0, static_cast<uint64_t>(order_index_));
      }
      return Visit(order_[0][static_cast<size_t>(draws_ % n)], 1.0);
    case Sampling::kCyclic2:
      return Visit(order_[(draws_ / n) % 2][static_cast<size_t>(draws_ % n)], 1.0);
    case Sampling::kLipschitz:
    case Sampling::kLipschitzLiteral:
    case Sampling::kLipschitzPort: {
      const Uniforms u = NextUniforms();
      if (u.choice * count < static_cast<double>(n - seen_count_)) return VisitUnseen(u.place, 1.0);
      if (sampling_ == Sampling::kLipschitzPort) return VisitPort(u.place);
      const int64_t i = tree_.Find(u.place);
      return Visit(i, static_cast<double>(seen_count_) * tree_.weight(i) / tree_.sum());
    }
    case Sampling::kMixedUnseen:
    case Sampling::kMixed: {
      const Uniforms u = NextUniforms();
      if (!unseen_.empty()) {
        const auto unseen = static_cast<double>(n - seen_count_);
        if (seen_count_ == 0) return VisitUnseen(u.place, 1.0);
        if (u.choice < 0.5) return VisitUnseen(u.place, 0.5 * count / unseen);
        const int64_t i = tree_.Find(u.place);
        return Visit(i, 0.5 * count * tree_.weight(i) / tree_.sum());
      }
      const bool uniform = u.choice < 0.5 || seen_count_ == 0;
      const int64_t i = uniform ? static_cast<int64_t>(u.place * count) : tree_.Find(u.place);
      const double share = tree_.sum() > 0.0 ? tree_.weight(i) / tree_.sum() : 0.0;
      return Visit(i, seen_count_ == 0 ? 1.0 : 0.5 + 0.5 * count * share);
    }
  }
  LUTHIER_CHECK(false);
}

double Sampler::StartConstant(const Draw& draw) const {
  const bool pure = IsPureLipschitz(sampling_);
  if (!draw.first && sampling_ == Sampling::kLipschitzLiteral) {
    return std::min(2.0 * constant(draw.index), kMaxConstant);
  }
  if (!draw.first) return (pure ? 0.5 : 0.9) * constant(draw.index);
  if (pure || seen_count_ == 1) return first_constant_;
  // The example just seen has no constant yet.
  return 0.5 * tree_.sum() / static_cast<double>(seen_count_ - 1);
}

void Sampler::Save(base::CheckpointWriter* writer) const {
  Eigen::VectorXd constants(size());
  std::string seen(seen_.begin(), seen_.end());
  for (int64_t i = 0; i < size(); ++i) constants[i] = constant(i);
  writer->U64(static_cast<uint64_t>(draws_));
  writer->U64(put_back_ ? static_cast<uint64_t>(put_back_->index) + 1 : 0);
  writer->F64(put_back_ ? put_back_->scaled_probability : 0.0);
  writer->U64(put_back_ && put_back_->first ? 1 : 0);
  writer->Vector(constants);
  writer->Text(seen);
  writer->Text(absl::string_view(reinterpret_cast<const char*>(unseen_.data()), unseen_.size() * sizeof(int32_t)));
}

bool Sampler::Load(base::CheckpointReader* reader) {
  const auto draws = static_cast<int64_t>(reader->U64());
  const uint64_t back = reader->U64();
  const double scaled_probability = reader->F64();
  const bool first = reader->U64() != 0;
  const Eigen::VectorXd constants = reader->Vector();
  const std::string seen = reader->Text();
  const std::string unseen = reader->Text();
  const auto n = static_cast<size_t>(size());
  if (!reader->ok() || draws < 0 || static_cast<size_t>(constants.size()) != n || seen.size() != n) return false;
  if (unseen.size() % sizeof(int32_t) != 0 || unseen.size() / sizeof(int32_t) > n) return false;
  if (!constants.allFinite() || (constants.size() > 0 && constants.minCoeff() < 0.0)) return false;
  if (back > n) return false;
  draws_ = draws;
  put_back_.reset();
  if (back > 0) put_back_ = Draw{static_cast<int64_t>(back) - 1, scaled_probability, first};
  seen_.assign(seen.begin(), seen.end());
  seen_count_ = std::count_if(seen_.begin(), seen_.end(), [](uint8_t s) { return s != 0; });
  unseen_.resize(unseen.size() / sizeof(int32_t));
  std::copy(unseen.begin(), unseen.end(), reinterpret_cast<char*>(unseen_.data()));
  if (sampling_ == Sampling::kLipschitzPort && unseen_.size() != n) return false;
  for (const int32_t i : unseen_) {
    if (i < 0 || i >= size()) return false;
  }
  for (int64_t i = 0; i < size(); ++i) tree_.Set(i, constants[i]);
  block_index_ = -1;
  order_index_ = -1;
  return true;
}

}  // namespace luthier::stochastic
