#include "lib/search/auto.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/search/bo/model/bo_options.h"
#include "lib/study/compact_column.h"
#include "lib/study/encoding.h"
#include "lib/study/metrics.h"
#include "lib/study/rung_schedule.h"

namespace luthier::search {
namespace {

constexpr int64_t kManyResults = 1500;  // Number of results that the model sees at most (observations.h).
constexpr int64_t kManyWorkers = 16;    // Number of workers from which on a reason mentions them.

struct Kinds {
  int continuous = 0, ordered = 0, unordered = 0;
  int total() const { return continuous + ordered + unordered; }
};

Kinds CountKinds(const study::Encoding& encoding) {
  Kinds kinds;
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    switch (study::CompactColumn(encoding, c).kind()) {
      case study::CompactColumn::Kind::kContinuous:
        ++kinds.continuous;
        break;
      case study::CompactColumn::Kind::kOrdered:
        ++kinds.ordered;
        break;
      case study::CompactColumn::Kind::kUnordered:
        ++kinds.unordered;
        break;
    }
  }
  return kinds;
}

std::string Count(int64_t count, const char* what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

// Chooses training in rungs for a study with a resource. It is not known what a user's own objective does with a
// checkpoint, so its trials go on from rung to rung and bad ones are stopped there; the trials of a builtin one pause.
void ChooseParts(const study::StudySpec& spec, const study::BoOptions& bo, AutoChoice* choice) {
  const auto plainly = [&](absl::string_view why) {
    choice->reasons.insert(choice->reasons.begin() + 1,
                           absl::StrCat("every trial is trained to its end, although there is a resource: ", why));
  };
  if (spec.reproducible) return plainly("the study is reproducible");
  if (!spec.metrics.empty()) return plainly("it has several metrics; asha, if you name it, ends bad settings early");
  if (spec.stopping) return plainly("its stopping rule ends the bad ones");
  const auto* command = std::get_if<study::CommandObjective>(&spec.objective);
  if (command != nullptr && !command->stdout_patterns.empty() && !study::HasStepPattern(*command, spec)) {
    return plainly("its stdout_patterns have no step");
  }
  study::AshaOptions asha;
  const bool builtin = std::holds_alternative<study::BuiltinObjective>(spec.objective);
  asha.variant = builtin ? study::AshaVariant::kPromote : study::AshaVariant::kStop;
  asha.sampler = bo;
  std::get<study::BoOptions>(asha.sampler).rules = 0;  // Results of rungs are no repetitions of each other.
  if (study::MaxHalvings(*spec.resource, asha.eta) < 1) {
    return plainly(absl::StrCat("from ", spec.resource->min, " to ", spec.resource->max, " there is no rung between"));
  }
  if (spec.budget.max_trials < asha.eta) return plainly("so few trials leave nothing to compare");
  choice->algorithm = asha;
  // This is the first reason that people see.
  choice->reasons.insert(
      choice->reasons.begin(),
      absl::StrCat("the study has a resource: settings are trained to rungs, and the best third at each ",
                   builtin ? "is continued" : "goes on",
                   " (name an algorithm, bo for one, to train all to their end); new ones come from the model"));
}

// Says what a member beside the model is for.
std::string MemberReason(Member member) {
  return absl::StrCat(
      "beside the model one trial in ", kMemberEvery, " is ", NameOf(member),
      "'s, and more where that finds the best: so the best of any N trials, one at a time, is as good as ",
      NameOf(member), "'s own first N/", kMemberEvery);
}

// Returns true if labels keep a floor of trials (labels.h).
bool KeepsLabels(const study::StudySpec& spec, const study::AlgorithmSpec& algorithm) {
  const auto* const bo = std::get_if<study::BoOptions>(&algorithm);
  return bo != nullptr && bo->rules >= 3 && study::ObjectiveCount(spec) == 1 && !study::EndsWhenAnswered(spec);
}

// Says what is known of the noise of results; "" for what several objectives need not be told.
std::string NoiseReason(const study::StudySpec& spec, const study::AutoOptions& options, const study::BoOptions& bo) {
  if (bo.SaidNoisy()) {
    return absl::StrCat(options.noisy.value_or(false) ? "results are said to be noisy" : "the objective adds noise",
                        ": the model smooths them, ",
                        Recommends(spec, bo)
                            ? "proposals have the largest upper confidence bound, one trial is recommended"
                            : "gains that noise hides do not count",
                        ", and there are no local steps");
  }
  if (FindsNoise(spec, bo)) {
    return "the best setting of the initial design is tried once more ({auto: {noisy: false}} if results repeat "
           "exactly): "
           "if its results are equal, local steps polish the best settings, else the model smooths results and one "
           "trial "
           "is recommended";
  }
  if (study::ObjectiveCount(spec) > 1) return "";
  return "results are taken to be repeatable ({auto: {noisy: true}} if they are not): local steps polish the best "
         "settings";
}

}  // namespace

bool AddsNoise(const study::StudySpec& spec) {
  const auto* builtin = std::get_if<study::BuiltinObjective>(&spec.objective);
  if (builtin == nullptr || !absl::StartsWith(builtin->model, "function:")) return false;
  const auto noise = builtin->options.find("noise");
  if (noise == builtin->options.end()) return false;
  const double* level = std::get_if<double>(&noise->second);
  return level != nullptr && *level > 0.0;
}

AutoChoice ChooseAlgorithm(const study::StudySpec& spec, const study::AutoOptions& options) {
  const study::Encoding encoding(spec.space);
  const Kinds kinds = CountKinds(encoding);
  AutoChoice choice;
  auto because = [&](std::string reason) { choice.reasons.push_back(std::move(reason)); };
  const std::string size =
      absl::StrCat(Count(kinds.total(), "tuned parameter"), ", ", Count(spec.budget.max_trials, "trial"));

  const int objectives = study::ObjectiveCount(spec);
  study::BoOptions bo = study::BoDefaults(objectives > 1 ? study::BoPreset::kBo : study::BoPreset::kFobo);
  bo.count_history = options.rules >= 1;
  bo.rules = options.rules >= 5 ? study::BoOptions::kNewestRules : options.rules >= 4 ? 2 : options.rules >= 3 ? 1 : 0;
  if (!ValidateBo(spec, bo).ok()) {
    because(absl::StrCat(size, ": more labels than a model can tell apart in time, so independent random settings"));
    choice.algorithm = study::RandomOptions{};
    return choice;
  }
  if (objectives > 1) {
    because(absl::StrCat(size, ", ", Count(objectives, "objective"),
                         ": a Gaussian process for each; the next setting is expected to add most to the hypervolume "
                         "of the front"));
  } else {
    because(absl::StrCat(size,
                         ": a Gaussian process with log expected improvement; its kernel and the warp of the "
                         "results are chosen as they come"));
  }
  if (study::HasBounds(spec)) {
    because(
        "a metric that has come near its bound has a model, too: settings count by the probability that they keep all "
        "bounds");
  }
  if (objectives > 1) {
    // Gradients, and steps along them, are of one objective.
  } else if (kinds.continuous > 0) {
    because("gradients are used where trials report them and they agree with the values");
  } else {
    bo.gradients = study::BoGradients::kOff;
  }
  bo.noisy = AddsNoise(spec) ? true : options.noisy;
  if (std::string reason = NoiseReason(spec, options, bo); !reason.empty()) because(std::move(reason));
  if (!bo.SaidNoisy() && objectives == 1 && kinds.unordered > 0 && kinds.continuous > 0) {
    because(absl::StrCat(Count(kinds.unordered, "parameter"),
                         " without order: a local step is made only where it promises more than the model does with "
                         "other labels"));
  }
  if (const int design = InitialPoints(bo, encoding.compact_dim()); spec.budget.max_trials <= design) {
    because("so few trials are all initial design: the defaults, then settings spread over the space");
  } else if (spec.budget.max_trials > kManyResults) {
    because(absl::StrCat("beyond ", kManyResults,
                         " results the model sees the newest, the best and a sample of the "
                         "others, so a suggestion stays within about a second (tpe takes milliseconds)"));
  }
  if (study::EndsWhenAnswered(spec)) {
    because(
        "the study ends once no setting is expected to gain what matters, a hundredth of the best result's standard "
        "error ({budget: {until_answered: false}} uses all trials)");
  }
  if (spec.budget.max_parallel >= kManyWorkers) {
    because(
        absl::StrCat(spec.budget.max_parallel,
                     " at once: open trials are believed to give what is predicted, so that new ones go elsewhere"));
  }
  choice.algorithm = bo;
  if (options.rules >= 4 && !study::EndsWhenAnswered(spec)) {
    study::StudySpec chosen = spec;
    chosen.algorithm = bo;
    choice.members = MembersOf(chosen);
    for (const Member member : choice.members) because(MemberReason(member));
  }
  if (options.rules >= 1 && spec.resource) ChooseParts(spec, bo, &choice);
  if (kinds.unordered > 0 && KeepsLabels(spec, choice.algorithm)) {
    because("an unlucky label is tried again: each keeps a floor of trials, until the model knows that it is bad");
  }
  return choice;
}

}  // namespace luthier::search
