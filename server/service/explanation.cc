#include "server/service/explanation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/search/bo/turns/label_detail.h"
#include "lib/search/designer.h"
#include "lib/search/expectations.h"
#include "lib/search/portfolio/portfolio_designer.h"
#include "lib/study/metrics.h"
#include "lib/study/parameters.h"

namespace luthier::service {
namespace {

constexpr int kCertificatePoints = 1024;  // Points behind a suggestion's excluded_share: docs/reference/lbo.md.

const char* OriginText(const std::string& origin) {
  static const auto* const kOrigins = new std::map<std::string, const char*>{
      {"init", "quasi-random, before there is enough data for a model"},
      {"acq", "the model expects the most from it"},
      {"explore", "looks where little is known"},
      {"spread", "far from all others, because nothing more is expected near the best"},
      {"label", "the best that the model knows with a label that has few trials"},
      {"probe", "the best setting so far once more, to see whether its result repeats"},
      {"stuck_random", "random, because the model proposed what was tried already"},
      {"late", "the next point of a Sobol sequence, as the model was not ready in time while others waited, too"},
      {"random", "an independent random draw"},
      {"sobol", "the next point of a Sobol sequence"},
      {"grid", "the next point of the grid"},
      {"cma_es", "a sample of the current generation's distribution"},
      {"direct", "the next point of a division of the space into cells, first the promising and the large ones"},
      {"halton", "the next point of a Halton sequence"},
      {"nsga2", "a child of two good settings"},
      {"hoag", "a step along the gradient of the descent's last point"},
      {"hoag_start", "where a descent along gradients begins"},
      {"tpe", "like the good settings and unlike the others"},
      {"trust_region", "a local step around the best setting, which gains more than the model's proposal"},
      {"quasi_newton", "a step along the gradients of the best setting"},
      {"restart", "begins a new search elsewhere, as the last one has ended"},
      {"near_best", "near the best setting, as no step along gradients is open"},
      {"untried", "in the place of a setting that was tried already"},
      {"repeat", "measured again, as results are noisy and every setting was tried"},
      {"gp_failed", "random, because no model explained the results"},
      {"all_random", "random, because the model had no proposal"},
      {"ar_empty", "the bounds on the slope ruled out every candidate of the model; they allow this point"},
  };
  const auto found = kOrigins->find(origin);
  return found == kOrigins->end() ? nullptr : found->second;
}

// Says why a search beside the model was asked; "" for settings of none.
std::string MembersTurn(const v1::Provenance& why) {
  const auto place = why.details().find(search::kMemberTrial), earned = why.details().find(search::kMemberEarned);
  if (place == why.details().end()) return "";
  // The first settings of tpe are random ones.
  const std::string member = why.origin() == "random" ? "tpe" : why.origin();
  const bool served = earned != why.details().end() && earned->second > 0.0;
  return absl::StrCat("setting ", static_cast<int64_t>(place->second), " of what ", member, " would try alone, ",
                      served ? "as one of its settings was the best"
                             : absl::StrCat("as one trial in ", search::kMemberEvery, " is its own"));
}

// Says which label was due; "" for settings of none.
std::string LabelsTurn(const v1::Provenance& why) {
  for (const auto& [name, trials] : why.details()) {
    if (!absl::StartsWith(name, search::kLabelDetail)) continue;
    return absl::StrCat("its ", absl::StripPrefix(name, search::kLabelDetail), " had ", study::FormatDouble(trials),
                        trials == 1.0 ? " trial" : " trials",
                        " (stopped ones count half): too few to know how good it can be");
  }
  return "";
}

std::string Numbers(const google::protobuf::RepeatedField<double>& numbers) {
  const auto append = [](std::string* out, double value) { absl::StrAppend(out, study::FormatDouble(value)); };
  return absl::StrCat("[", absl::StrJoin(numbers, ", ", append), "]");
}

}  // namespace

std::vector<std::string> UnusedOf(const study::StudySpec& spec, const study::Trial& trial) {
  std::vector<std::string> texts;
  if (trial.provenance.designer != "user") return texts;
  for (const auto& [name, value] : trial.unused) {
    const std::vector<study::ParameterSpec>& space = spec.space.parameters();
    const auto known = std::find_if(space.begin(), space.end(), [&](const auto& p) { return p.name == name; });
    const char* why = ", for which the objective did not ask";
    if (known == space.end()) {
      why = ", of which no trial has told a parameter";
    } else if (!study::CanonicalValue(*known, value).ok()) {
      why = ", which is none of the parameter's values";
    }
    texts.push_back(absl::StrCat(name, " = ", study::FormatValue(value), why));
  }
  return texts;
}

void ExplainMetrics(const study::StudySpec& spec, const study::Trial& trial, v1::ExplainTrialResponse* out) {
  std::vector<std::string> texts;
  for (const search::MetricExpectation& expected : search::ExpectationsOf(spec, trial.provenance.details)) {
    v1::ExplainTrialResponse::Expectation* const told = out->add_expectations();
    told->set_metric(expected.metric);
    std::string text = expected.metric;
    if (expected.mean) {
      told->mutable_predicted()->set_mean(*expected.mean);
      told->mutable_predicted()->set_sd(*expected.sd);
      absl::StrAppendFormat(&text, " = %.5g ± %.2g", *expected.mean, *expected.sd);
    }
    if (expected.bounds_kept) {
      told->set_bounds_kept(*expected.bounds_kept);
      absl::StrAppendFormat(&text, " (within its bounds with probability %.2g)", *expected.bounds_kept);
    }
    if (expected.mean || expected.bounds_kept) texts.push_back(std::move(text));
  }
  if (!texts.empty()) out->add_sentences(absl::StrCat("the models expected ", absl::StrJoin(texts, ", ")));
  if (spec.metrics.empty() || !trial.final_measurement) return;
  std::vector<std::string> others;
  for (const study::MetricSpec& metric : spec.metrics) {
    const auto value = trial.final_measurement->metrics.find(metric.name);
    if (metric.name == spec.metric.name || value == trial.final_measurement->metrics.end()) continue;
    others.push_back(absl::StrCat(metric.name, " = ", study::FormatDouble(value->second)));
  }
  if (!others.empty()) out->add_sentences(absl::StrCat("beside it: ", absl::StrJoin(others, ", ")));
  const std::optional<std::vector<double>> values = study::ValuesOf(spec, *trial.final_measurement);
  const std::string missed = values ? study::MissedBounds(spec.metrics, *values) : "";
  if (!missed.empty()) out->add_sentences(absl::StrCat("not feasible: ", missed));
}

namespace {

// Adds what the model expected of the metric, and the result with its distance from that.
void ComparePrediction(const std::string& metric, const v1::Trial& trial, v1::ExplainTrialResponse* out) {
  const auto& details = trial.provenance().details();
  const auto mean = details.find("predicted_mean"), sd = details.find("predicted_sd");
  const bool predicted = mean != details.end() && sd != details.end();
  if (predicted) {
    out->mutable_predicted()->set_mean(mean->second);
    out->mutable_predicted()->set_sd(sd->second);
    const auto p_feasible = details.find("p_feasible");
    if (p_feasible != details.end()) out->mutable_predicted()->set_p_success(p_feasible->second);
  }
  const auto actual = trial.final_measurement().metrics().find(metric);
  if (actual == trial.final_measurement().metrics().end()) return;
  out->add_sentences(absl::StrCat("result: ", metric, " = ", study::FormatDouble(actual->second)));
  // A result has the noise of a result, too.
  const auto noise = details.find("noise_sd");
  const bool noisy = noise != details.end() && noise->second > 0;
  const double deviation = predicted ? std::hypot(sd->second, noisy ? noise->second : 0.0) : 0.0;
  if (!(deviation > 0)) return;
  out->set_surprise((actual->second - mean->second) / deviation);
  out->add_sentences(absl::StrFormat("the prediction was off by %+.2f standard deviations%s", out->surprise(),
                                     noisy ? ", its own and the noise's together" : ""));
}

}  // namespace

v1::ExplainTrialResponse Explain(const std::string& metric, v1::Trial trial, const std::vector<std::string>& unused) {
  v1::ExplainTrialResponse out;
  const v1::Provenance& why = trial.provenance();
  const auto say = [&out](auto&&... parts) { out.add_sentences(absl::StrCat(parts...)); };
  if (why.designer() == "user" && unused.empty()) {
    say("tried because a user added it");
  } else if (why.designer() == "user") {
    say("a user added it, with values that were not tried: ", absl::StrJoin(unused, "; "));
  } else if (why.designer() == "import") {
    say("a result from elsewhere, which a user imported");
  } else {
    const std::string as = why.has_ask_index() ? absl::StrCat(" as suggestion ", why.ask_index(),
                                                              ", knowing the events up to seq ", why.prefix_seq())
                                               : "";
    say("proposed by ", why.designer(), " (version ", why.algorithm_version(), ")", as);
    const char* const text = OriginText(why.origin());
    say("origin: ", why.origin(), text == nullptr ? "" : ": ", text == nullptr ? "" : text);
  }
  if (const std::string turn = MembersTurn(why) + LabelsTurn(why); !turn.empty()) say(turn);
  if (why.resource() > 0) say("to be trained to step ", why.resource());
  if (why.warm_start() > 0) {
    say("training was to start from the model of trial ", why.warm_start(), ", the nearest that was complete");
  }
  for (const v1::Provenance& promotion : trial.promotions()) {
    say("continued to step ", promotion.resource(), " as suggestion ", promotion.ask_index(),
        ", knowing the events up to seq ", promotion.prefix_seq());
  }
  if (const auto noise = why.details().find(search::kNoiseFoundBy); noise != why.details().end()) {
    say("results are noisy, as trial ", static_cast<int64_t>(noise->second),
        " showed: it differs from an earlier one of its setting");
  }
  if (const auto trial_then = why.details().find("recommended"); trial_then != why.details().end()) {
    const auto then = [&](const char* name) {
      const auto at = why.details().find(name);
      return at == why.details().end() ? 0.0 : at->second;
    };
    say(absl::StrFormat(
        "recommended at that time: trial %d, whose setting was expected to give %.6g ± %.2g (noise of "
        "one result: %.2g)",
        static_cast<int64_t>(trial_then->second), then("recommended_mean"), then("recommended_sd"), then("noise_sd")));
  }
  const auto share = why.details().find("excluded_share");
  const auto lipschitz = why.details().find("lipschitz");
  if (share != why.details().end() && lipschitz != why.details().end()) {
    const double p = share->second;
    say(absl::StrFormat(
        "ruled out at that time: %.1f %% (+-%.1f %%) of the space could not hold a record, provided "
        "that the model's output (the results, standardised and warped) nowhere changes faster than "
        "L = %.6g per side of the unit cube that the scaled parameters span (estimated by %d points)",
        100.0 * p, 100.0 * std::sqrt(p * (1.0 - p) / kCertificatePoints), lipschitz->second, kCertificatePoints));
  }
  if (!why.set_aside().empty()) {
    say("the first one made without the gradients of trials ", absl::StrJoin(why.set_aside(), ", "),
        ", which contradict the losses that their workers reported");
  }
  if (!why.direction().empty()) say("asked for the slope along ", Numbers(why.direction()));
  if (trial.gradient_set_aside()) {
    say("gradient set aside: it contradicts the losses that the same worker reported; the losses are kept");
  }
  if (trial.stop_requested()) say("its end was asked for");
  ComparePrediction(metric, trial, &out);
  *out.mutable_trial() = std::move(trial);
  return out;
}

}  // namespace luthier::service
