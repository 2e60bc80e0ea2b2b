#include "bench/reproduce/textbook_designer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/regression.h"
#include "lib/math/lbfgs.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/search/designer_state.h"

namespace luthier::reproduce {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr char kTextbookStateKind[] = "textbook/1";

constexpr int kRandomStarts = 3;
constexpr int kSearches = 2;
constexpr int kMaxEvaluations = 60;

gp::InferenceOptions Prior() {
  gp::InferenceOptions options;
  options.prior = gp::PriorKind::kThesis;
  options.fit_noise = true;
  options.min_noise = 1e-6;
  options.min_lengthscale = 1e-3;
  options.max_lengthscale = 10.0;
  return options;
}

}  // namespace

TextbookDesigner::TextbookDesigner(const study::StudySpec& spec, const TextbookOptions& options)
    : encoding_(spec.space),
      goal_(spec.metric.goal),
      seed_(spec.seed),
      options_(options),
      shape_(kernels::GroupedShape(kernels::Family::kMatern52, encoding_.ModelGroups())) {}

absl::StatusOr<gp::Hyperparameters> TextbookDesigner::Infer(gp::Likelihood* likelihood,
                                                            const std::optional<gp::Hyperparameters>& carried,
                                                            uint64_t ask_index, const base::StopToken& stop) const {
  const gp::HyperPosterior posterior(likelihood, Prior());
  auto value_at = [&](const VectorXd& phi, VectorXd* gradient, gp::Hyperparameters* theta) -> absl::StatusOr<double> {
    if (options_.constant_mean) return posterior.Value(phi, gradient, theta, stop);
    const gp::Hyperparameters at = posterior.Unpack(phi);  // Its mean is 0.
    if (theta != nullptr) *theta = at;
    gp::LikelihoodGradient parts;
    LUTHIER_ASSIGN_OR_RETURN(const double log_likelihood,
                             likelihood->Marginal(at, gradient == nullptr ? nullptr : &parts, stop));
    if (!std::isfinite(log_likelihood)) return -std::numeric_limits<double>::infinity();
    const double log_prior = posterior.LogPrior(phi, gradient);
    if (gradient != nullptr) {
      gradient->head(shape_.groups) += parts.log_lengthscales;
      (*gradient)(shape_.groups) += parts.log_signal_variance;
      (*gradient)(shape_.groups + 1) += parts.log_noise_variance;
    }
    return log_likelihood + log_prior;
  };
  base::RandomStream random(seed_, "textbook/map", ask_index);
  std::vector<std::pair<double, VectorXd>> starts;
  auto add = [&](const VectorXd& phi) -> absl::Status {
    LUTHIER_ASSIGN_OR_RETURN(const double value, value_at(phi, nullptr, nullptr));
    starts.emplace_back(value, phi);
    return absl::OkStatus();
  };
  if (carried.has_value()) LUTHIER_RETURN_IF_ERROR(add(posterior.Pack(*carried)));
  LUTHIER_RETURN_IF_ERROR(add(posterior.Mode()));
  for (int s = 0; s < kRandomStarts; ++s) LUTHIER_RETURN_IF_ERROR(add(posterior.Draw(random)));
  // The carried state is always searched from.
  std::stable_sort(starts.begin() + (carried.has_value() ? 1 : 0), starts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  math::LbfgsOptions search;
  search.max_evaluations = search.max_iterations = kMaxEvaluations;
  search.gradient_tolerance = 1e-4;
  search.value_tolerance = 1e-6;
  std::pair<double, VectorXd> best = starts.front();
  for (int s = 0; s < kSearches; ++s) {
    if (!std::isfinite(starts[static_cast<size_t>(s)].first)) continue;
    const auto negative = [&](const VectorXd& phi, VectorXd* gradient) -> absl::StatusOr<double> {
      LUTHIER_ASSIGN_OR_RETURN(const double value, value_at(phi, gradient, nullptr));
      if (gradient != nullptr) *gradient = -*gradient;
      return -value;
    };
    LUTHIER_ASSIGN_OR_RETURN(const math::LbfgsResult end,
                             math::MinimizeLbfgs(negative, starts[static_cast<size_t>(s)].second, posterior.lower(),
                                                 posterior.upper(), search, stop));
    if (!(best.first >= -end.value)) best = {-end.value, end.x};
  }
  gp::Hyperparameters theta;
  LUTHIER_RETURN_IF_ERROR(value_at(best.second, nullptr, &theta).status());
  return theta;
}

absl::StatusOr<search::Suggestion> TextbookDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                             const base::StopToken& stop) {
  const int d = encoding_.compact_dim();
  search::Suggestion suggestion;
  if (ask_index < static_cast<uint64_t>(std::max(4, std::min(d + 1, 20)))) {
    suggestion.origin = "init";
    suggestion.parameters = ask_index == 0
                                ? encoding_.space().Default()
                                : encoding_.FromCompact(math::SobolSequence(d, seed_, "bo/init").Point(ask_index - 1));
    return suggestion;
  }
  LUTHIER_ASSIGN_OR_RETURN(const search::Observations data,
                           search::Collect(history, encoding_, goal_, nullptr, true, stop));
  auto random_point = [&](const char* origin) {
    base::RandomStream random(seed_, "bo/random", ask_index);
    suggestion.origin = origin;
    suggestion.parameters = encoding_.Sample(random);
    return suggestion;
  };
  VectorXd outputs = data.scores;
  if (options_.standardize) outputs = search::OutputTransform::Standard(data.scores).Forward(data.scores);
  std::optional<gp::Hyperparameters> carried;
  if (const study::HistoryTrial* last = history.LastAskBefore(ask_index); last != nullptr) {
    carried = search::DecodeState<gp::Hyperparameters>(kTextbookStateKind, last->designer_state);
  }
  gp::Likelihood likelihood(shape_, data.observed, outputs);
  LUTHIER_ASSIGN_OR_RETURN(const gp::Hyperparameters theta, Infer(&likelihood, carried, ask_index, stop));
  suggestion.designer_state = search::EncodeState(kTextbookStateKind, theta);
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<gp::Regression> regression,
                           gp::Regression::Fit(shape_, theta, data.observed, outputs, {}, stop));
  if (!regression.has_value()) return random_point("gp_failed");
  search::AcquisitionSettings settings;
  settings.kind = search::AcquisitionKind::kExpectedImprovement;
  const search::ModelAcquisition acquisition({{&*regression, outputs.maxCoeff()}}, settings);
  LUTHIER_ASSIGN_OR_RETURN(const search::MaximizeResult found, search::MaximizeByDirect(acquisition, encoding_, stop));
  if (found.candidates.empty()) return random_point("all_random");
  const bool tried = search::IsTried(data, found.candidates[0].u);
  if (tried && options_.replace_stuck) return random_point("stuck_random");
  suggestion.origin = tried ? "repeat" : "acq";
  suggestion.parameters = found.candidates[0].parameters;
  return suggestion;
}

}  // namespace luthier::reproduce
