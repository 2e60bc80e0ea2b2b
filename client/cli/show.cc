#include "client/cli/show.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/show_text.h"
#include "lib/base/printable.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/registry.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

// Returns the option of a builtin objective that limits its training; "": none is known.
std::string LimitOption(const v1::StudySpec& spec) {
  if (!spec.objective().has_builtin()) return "";
  const absl::StatusOr<const catalogue::ObjectiveInfo*> info =
      catalogue::FindObjective(spec.objective().builtin().model());
  if (!info.ok()) return "";
  for (const char* option : {"max_iterations", "max_passes"}) {
    if ((*info)->FindParameter(option) != nullptr) return option;
  }
  return "";
}

// Returns `text` with its decimal numbers in six digits. Digits within words, paths and versions are not changed.
std::string WithShortNumbers(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool may_begin = out.empty() || absl::StrContains(" =([,:", out.substr(out.size() - 1));
    const size_t length = std::min(text.find_first_not_of("0123456789.eE+-"), text.size());
    const absl::string_view number = text.substr(0, length);
    const bool ends = length == text.size() || absl::StrContains(" )],;", text.substr(length, 1));
    double value = 0.0;
    if (may_begin && ends && absl::StrContains(number, '.') && absl::SimpleAtod(number, &value)) {
      out += ShortNumber(value);
      text.remove_prefix(length);
    } else {
      out += text[0];
      text.remove_prefix(1);
    }
  }
  return out;
}

// Returns an estimated share: "12.3 % (+-0.5 %)".
std::string ShareText(double share, double standard_error) {
  return absl::StrFormat("%.1f %% (+-%.1f %%)", 100.0 * share, 100.0 * standard_error);
}

// Returns the condition of a certificate: a bound on slopes, and the quantity that it bounds.
std::string ConditionText(const std::string& what, double lipschitz) {
  return absl::StrCat("provided that ", what, " nowhere changes faster than L = ", ShortNumber(lipschitz),
                      " per side of the unit cube that the scaled parameters span");
}

void PrintCertificate(std::ostream& out, const std::string& metric, const v1::Certificate& c) {
  const std::string name = Printable(metric);
  out << "ruled out\n  " << ShareText(c.excluded_share(), c.standard_error()) << " of the space cannot hold a " << name
      << " better than " << study::FormatDouble(c.best_value()) << " by more than " << study::FormatDouble(c.epsilon())
      << ",\n  " << ConditionText(name, c.lipschitz()) << "\n  (estimated by " << c.points() << " points from "
      << c.results() << " results, between which the steepest slope is " << ShortNumber(c.steepest_slope()) << ")\n";
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", 100.0 * share);
}

// Returns the better side of a term: values if it has one parameter, else the sign of the product.
std::string BetterText(const v1::HarmonicaStage::Term& term) {
  if (!term.better_values().empty()) return Printable(term.better_values());
  if (term.factors_size() == 2) return term.better_sign() > 0 ? "alike" : "different";
  return term.better_sign() > 0 ? "product +1" : "product -1";
}

void PrintHarmonicaStage(std::ostream& out, int number, const v1::HarmonicaStage& stage) {
  out << "stage " << number << ": " << stage.samples() << " samples";
  if (stage.failed() > 0) out << " (" << stage.failed() << " failed)";
  out << ", of whose variance a polynomial explains " << Percent(stage.r2()) << " (cross-validated "
      << Percent(stage.cross_validated_r2()) << ")\n";
  for (const std::string& warning : stage.warnings()) out << "warning  " << Printable(warning) << "\n";
  Table table({"rank", "term", "weight", "better", "variance", "found again"});
  for (int k = 0; k < stage.terms_size(); ++k) {
    const v1::HarmonicaStage::Term& term = stage.terms(k);
    std::string name;
    for (const v1::HarmonicaStage::Factor& factor : term.factors()) {
      absl::StrAppend(&name, name.empty() ? "" : " x ", factor.name());
    }
    table.Add({Cell::Integer(k + 1), Cell::Text(name), Cell::Number(term.weight()), Cell::Text(BetterText(term)),
               Cell::Text(Percent(term.variance_share())),
               term.has_bootstrap_frequency() ? Cell::Text(Percent(term.bootstrap_frequency())) : Cell::Empty()});
  }
  if (!table.empty()) table.PrintAligned(out);
  for (const v1::HarmonicaStage::Restriction& restriction : stage.restrictions()) {
    const std::map<std::string, std::string> values(restriction.values().begin(), restriction.values().end());
    std::vector<std::string> parts;
    for (const auto& [parameter, left] : values) parts.push_back(Printable(absl::StrCat(parameter, "=", left)));
    out << "handed on: " << absl::StrJoin(parts, ", ") << "  (" << ShortNumber(restriction.value()) << ")\n";
  }
}

void PrintHarmonica(std::ostream& out, const v1::Study& study) {
  for (int q = 0; q < study.harmonica_stages_size(); ++q) PrintHarmonicaStage(out, q + 1, study.harmonica_stages(q));
  if (study.parameters_never_selected_size() == 0) return;
  std::vector<std::string> names;
  for (const std::string& name : study.parameters_never_selected()) names.push_back(Printable(name));
  out << "never selected: " << absl::StrJoin(names, ", ") << "\n";
}

// True if no trial reported a step, though the study has a resource.
bool NeverReportedAStep(const v1::Study& study) {
  return study.spec().has_resource() && study.trials().complete() > 0 && study.resource_spent() == 0;
}

// Returns the reference point of the front, an entry an objective.
std::vector<std::string> ReferencePoint(const v1::Study& study) {
  std::vector<std::string> point;
  for (const v1::MetricSpec& metric : study.spec().metrics()) {
    const auto place = static_cast<int>(point.size());
    if (metric.goal() == v1::GOAL_UNSPECIFIED || place >= study.reference_point_size()) continue;
    point.push_back(absl::StrCat(Printable(metric.name()), " ", ShortNumber(study.reference_point(place))));
  }
  return point;
}

}  // namespace

std::string DirectionText(const google::protobuf::RepeatedField<double>& direction) {
  const auto append = [](std::string* out, double value) { absl::StrAppend(out, study::FormatDouble(value)); };
  return absl::StrCat("[", absl::StrJoin(direction, ", ", append), "]");
}

std::string IdOf(const v1::Study& study) {
  return study.name().substr(study.name().rfind('/') + 1);
}

std::string StudyStateText(const v1::Study& study) {
  return study.state() == v1::Study::STATE_UNSPECIFIED ? "DAMAGED" : v1::Study::State_Name(study.state());
}

int64_t DoneTrials(const v1::TrialCounts& counts) {
  return counts.complete() + counts.pruned() + counts.failed() + counts.cancelled() + counts.deleted();
}

bool IsOver(const v1::Study& study) {
  const bool finished = study.state() != v1::Study::ACTIVE && study.state() != v1::Study::PAUSED;
  return finished && study.trials().running() == 0 && study.trials().pending() == 0;
}

std::vector<std::string> MetricNames(const v1::StudySpec& spec) {
  std::vector<std::string> names;
  for (const v1::MetricSpec& metric : spec.metrics()) names.push_back(metric.name());
  if (names.empty()) names.push_back(spec.metric().name());
  return names;
}

std::string FrontText(const v1::Study& study) {
  if (study.front_overflowed()) return "more than 5,000 trials on the front";
  std::string text = absl::StrCat(study.front_size(), study.front_size() == 1 ? " trial" : " trials", " on the front");
  if (!study.has_hypervolume()) return text;
  const bool fixed = std::all_of(
      study.spec().metrics().begin(), study.spec().metrics().end(),
      [](const v1::MetricSpec& metric) { return metric.goal() == v1::GOAL_UNSPECIFIED || metric.has_reference(); });
  absl::StrAppend(
      &text, ", hypervolume ",
      fixed ? ShortNumber(study.hypervolume()) : absl::StrCat(ShortNumber(100 * study.hypervolume()), " % of the box"),
      " beyond ", absl::StrJoin(ReferencePoint(study), ", "));
  return text;
}

std::string HypervolumeNote(const v1::Study& study) {
  if (study.front().empty() || study.has_hypervolume()) return "";
  const std::vector<std::string> point = ReferencePoint(study);
  return absl::StrCat("no hypervolume: no trial is better than the reference point",
                      point.empty() ? "" : absl::StrCat(" (", absl::StrJoin(point, ", "), ")"),
                      " in every objective, or it is too large or small a number, or takes too long to find");
}

std::string BoundsText(const v1::Study& study) {
  if (study.infeasible() == 0) return "";
  const int64_t complete = study.trials().complete();
  if (study.least_violating_trial() != 0) {
    return absl::StrCat("no trial meets the bounds; the least violation is ", ShortNumber(study.least_violation()),
                        ", of trial ", study.least_violating_trial());
  }
  const int64_t percent = (100 * study.infeasible() + complete / 2) / std::max<int64_t>(complete, 1);
  return absl::StrCat(study.infeasible(), " of ", complete, " complete trials (", percent, " %) are beyond the bounds");
}

std::string RecommendationText(const v1::Study& study) {
  if (study.recommended_trial() == 0) return "";
  std::string text =
      absl::StrCat("trial ", study.recommended_trial(), ", expected to give ", ShortNumber(study.recommended_mean()),
                   absl::StrFormat(" ± %.2g", study.recommended_sd()),
                   absl::StrFormat(" where one result is off by %.2g", study.noise_sd()), " (",
                   study.recommended_results(), study.recommended_results() == 1 ? " result" : " results", ")");
  if (study.recommended_trial() != study.best_trial()) {
    absl::StrAppend(&text, "; trial ", study.best_trial(), " has the best value, which luck has a part in");
  }
  return text;
}

std::string Summary(const v1::Study& study) {
  const v1::TrialCounts& counts = study.trials();
  std::string text = absl::StrCat(DoneTrials(counts), "/", study.spec().budget().max_trials(), " done");
  if (study.has_best_value()) {
    absl::StrAppend(&text, ", best ", ShortNumber(study.best_value()), " (trial ", study.best_trial(), ")");
  }
  if (study.front_overflowed() || study.front_size() > 0) absl::StrAppend(&text, ", ", FrontText(study));
  const std::pair<int64_t, const char*> others[] = {{counts.running(), "running"}, {counts.pending(), "pending"},
                                                    {counts.paused(), "paused"},   {counts.pruned(), "pruned"},
                                                    {counts.failed(), "failed"},   {counts.cancelled(), "cancelled"},
                                                    {counts.deleted(), "deleted"}};
  for (const auto& [count, what] : others) {
    if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
  }
  if (counts.retried() > 0) absl::StrAppend(&text, " (", counts.retried(), " of them tried again)");
  if (NeverReportedAStep(study)) text += ", no steps reported";
  return text;
}

std::string TrainingsText(const v1::TrainingCounts& counts) {
  const std::pair<int64_t, const char*> all[] = {{counts.converged(), "converged"},
                                                 {counts.precision(), "precision"},
                                                 {counts.target(), "target"},
                                                 {counts.limit(), "limit"},
                                                 {counts.diverged(), "diverged"}};
  std::string text;
  for (const auto& [count, what] : all) {
    if (count > 0) absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", what);
  }
  return text;
}

std::string LimitWarning(const v1::Study& study) {
  const v1::TrainingCounts& counts = study.trainings();
  if (counts.limit() == 0) return "";
  const int64_t all = counts.converged() + counts.precision() + counts.target() + counts.limit() + counts.diverged();
  const std::string option = LimitOption(study.spec());
  return absl::StrCat(
      counts.limit(), " of ", all, all == 1 ? " training" : " trainings", " ended at ",
      counts.limit() == 1 ? "its" : "their", " limit", option.empty() ? "" : absl::StrCat(" (", option, ")"),
      counts.limit() == 1 ? ": its result is not that of the optimum" : ": their results are not those of the optimum");
}

void PrintResolution(std::ostream& out, const v1::Study& study) {
  if (!study.has_resolved_algorithm()) return;
  out << "chosen by the service: algorithm:\n" << Indented(wire::ToYaml(study.resolved_algorithm())) << "\n";
  for (const std::string& reason : study.algorithm_reasons()) out << "  " << Printable(reason) << "\n";
}

void PrintChoice(std::ostream& out, const v1::Study& study) {
  if (!study.has_resolved_algorithm()) return;
  const v1::Algorithm& algorithm = study.resolved_algorithm();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  algorithm.GetReflection()->ListFields(algorithm, &fields);
  if (fields.empty()) return;
  out << "algorithm " << fields.front()->name() << ", chosen by the service";
  if (!study.algorithm_reasons().empty()) out << ": " << Printable(study.algorithm_reasons(0));
  out << "\n";
  // Whoever sets bounds wants to know what is made of them.
  for (int i = 1; i < study.algorithm_reasons_size(); ++i) {
    const std::string& reason = study.algorithm_reasons(i);
    if (absl::StrContains(reason, "bound")) out << "  " << Printable(reason) << "\n";
  }
}

std::string LegalShareText(const v1::Study& study) {
  if (!study.has_legal_share()) return "";
  return absl::StrCat(ShortNumber(100.0 * study.legal_share()), " % of random settings keep the constraints");
}

void PrintStudy(std::ostream& out, const v1::Study& study, Detail detail) {
  out << IdOf(study) << ": " << StudyStateText(study);
  if (!study.state_reason().empty()) out << " (" << Printable(study.state_reason()) << ")";
  out << ", " << Summary(study) << "\n";
  if (study.resource_spent() > 0) {
    out << "trained  " << study.resource_spent() << " " << UnitOf(study.spec())
        << " in all trials, restarts included\n";
  }
  if (const std::string trainings = TrainingsText(study.trainings()); !trainings.empty()) {
    out << "training " << trainings << "\n";
  }
  if (const std::string note = HypervolumeNote(study); !note.empty()) out << "front    " << note << "\n";
  if (const std::string bounds = BoundsText(study); !bounds.empty()) out << "bounds   " << bounds << "\n";
  if (const std::string noisy = RecommendationText(study); !noisy.empty()) out << "take     " << noisy << "\n";
  if (const std::string legal = LegalShareText(study); !legal.empty()) out << "legal    " << legal << "\n";
  out << "created  " << ShortTime(study.create_time()) << " UTC";
  if (!study.owner().empty()) out << " by " << Printable(study.owner());
  out << "\n";
  if (NeverReportedAStep(study)) {
    out << "warning  no trial has reported a step of its training, so none can be paused or stopped early: the "
           "objective has to report `step`\n";
  }
  if (const std::string warning = LimitWarning(study); !warning.empty()) {
    out << "warning  " << warning << "; see luthier trial list " << IdOf(study) << "\n";
  }
  for (const v1::GradientsSetAside& entry : study.gradients_set_aside()) {
    out << "warning  the gradients of worker " << Printable(entry.worker()) << " are set aside in " << entry.trials()
        << (entry.trials() == 1 ? " trial" : " trials") << ": check their sign and units\n";
  }
  detail.verbose ? PrintResolution(out, study) : PrintChoice(out, study);
  PrintHarmonica(out, study);
  if (study.has_certificate()) PrintCertificate(out, study.spec().metric().name(), study.certificate());
  v1::StudySpec spec = study.spec();
  if (!spec.metrics().empty()) spec.clear_metric();  // The list has it.
  out << "spec\n" << Indented(wire::ToYaml(spec)) << "\n";
}

std::string EventLine(const v1::Event& event, bool colour) {
  const std::string type = v1::Event::Type_Name(event.type());
  Tone tone = Tone::kPlain;
  if (absl::EndsWith(type, "_COMPLETED")) tone = Tone::kGood;
  if (absl::EndsWith(type, "_FAILED") || absl::EndsWith(type, "_CANCELLED")) tone = Tone::kBad;
  // An old program shows a newer server's type by its number.
  std::string text = absl::StrFormat("%8d  %s  ", event.seq(), ShortTime(event.time()));
  const std::string shown = type.empty() ? absl::StrCat("event ", event.type()) : type;
  absl::StrAppend(&text, colour ? Painted(shown, tone) : shown,
                  std::string(16 - std::min<size_t>(16, shown.size()), ' '));
  if (event.trial() > 0) absl::StrAppend(&text, "  trial ", event.trial());
  // Details name metrics with their values. One that equals the event's value is the study's.
  const bool told = absl::StrContains(event.detail(), absl::StrCat("=", study::FormatDouble(event.value())));
  if (event.has_value() && !told) absl::StrAppend(&text, "  ", ShortNumber(event.value()));
  if (!event.detail().empty()) absl::StrAppend(&text, "  ", Printable(WithShortNumbers(event.detail())));
  return text;
}

}  // namespace luthier::cli
