#include "lib/study/spec_change.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/study/measurement.h"

namespace luthier::study {
namespace {

// Explains why the domain `after` is not `before` or wider; "" if it is.
struct Narrowing {
  const ParameterDomain& after;

  std::string operator()(const FloatRange& before) const {
    const FloatRange& now = std::get<FloatRange>(after);
    if (now.scale != before.scale) return "has another scale";
    if (now.step != before.step) return "has another step";
    if (now.min > before.min || now.max < before.max) return "has a narrower range";
    if (!before.step) return "";
    const double steps = (before.min - now.min) / *before.step;
    return std::abs(steps - std::round(steps)) <= 1e-9 * std::max(1.0, std::abs(steps)) ? "" : kOffGrid;
  }
  std::string operator()(const IntRange& before) const {
    const IntRange& now = std::get<IntRange>(after);
    if (now.scale != before.scale) return "has another scale";
    if (now.step != before.step) return "has another step";
    if (now.min > before.min || now.max < before.max) return "has a narrower range";
    return (before.min - now.min) % before.step == 0 ? "" : kOffGrid;
  }
  std::string operator()(const OrdinalLabels& before) const {
    return Labels(before.labels, std::get<OrdinalLabels>(after).labels);
  }
  std::string operator()(const CategoricalLabels& before) const {
    return Labels(before.labels, std::get<CategoricalLabels>(after).labels);
  }
  std::string operator()(const BoolSwitch&) const { return ""; }

 private:
  static constexpr char kOffGrid[] = "has a minimum from which the old values are not a whole number of steps away";
  static std::string Labels(const std::vector<std::string>& before, const std::vector<std::string>& now) {
    const bool kept = now.size() >= before.size() && std::equal(before.begin(), before.end(), now.begin());
    return kept ? "" : "does not begin with the labels that it has, in their order; add new ones at the end";
  }
};

std::string WhyNotWider(const ParameterSpec& before, const ParameterSpec& after) {
  if (before.domain.index() != after.domain.index()) return "is of another kind";
  if (before.count != after.count) return "has another count";
  if (before.condition != after.condition) return "has another condition";
  return std::visit(Narrowing{after.domain}, before.domain);
}

void ChangeSpace(const StudySpec& spec, const std::vector<ParameterSpec>& parameters, base::Violations* violations,
                 SearchSpace* space) {
  std::vector<ParameterSpec> all = spec.space.parameters();
  for (const ParameterSpec& next : parameters) {
    const std::string at = absl::StrCat("space (", base::Quote(next.name), ")");
    const std::optional<int> place = spec.space.Find(next.name);
    if (!place) {
      violations->Add(at, "is no parameter of the study; a study's parameters stay, start another study");
      continue;
    }
    ParameterSpec& current = all[static_cast<size_t>(*place)];
    if (current == next) continue;
    const std::string why = WhyNotWider(current, next);
    if (!why.empty()) {
      violations->Add(at, absl::StrCat(why, "; a study's ranges can only become wider"));
    } else if (!(current.domain == next.domain) && LaidOut(spec.algorithm)) {
      violations->Add(at, absl::StrCat("can't be wider: ", AlgorithmName(spec.algorithm),
                                       " lays its settings out over the space from the start; start another study"));
    }
    current = next;
  }
  if (!violations->empty()) return;
  absl::StatusOr<SearchSpace> made = SearchSpace::Create(std::move(all));
  if (made.ok()) {
    *space = *std::move(made);
  } else {
    violations->AddAll("space", made.status());
  }
}

// Returns the fields that designers use; the others are empty.
StudySpec ForDesigners(StudySpec spec) {
  spec.display_name.clear();
  spec.description.clear();
  spec.labels.clear();
  if (auto* command = std::get_if<CommandObjective>(&spec.objective)) *command = CommandObjective();
  spec.budget.max_parallel = 0;  // With `reproducible` it does not change.
  spec.budget.patience = 0;
  spec.budget.target_value.reset();
  spec.budget.max_wall.reset();
  spec.budget.until_answered.reset();  // It decides when they are asked no more, and no suggestion.
  spec.weight = 1.0;
  return spec;
}

std::string Shown(const std::optional<double>& value) {
  return value ? FormatDouble(*value) : "none";
}

std::string Shown(const std::optional<bool>& value) {
  if (!value) return "default";
  return *value ? "true" : "false";
}

std::string Shown(const std::optional<absl::Duration>& value) {
  return value ? absl::FormatDuration(*value) : "none";
}

}  // namespace

absl::StatusOr<StudySpec> ChangeSpec(const StudySpec& spec, const SpecChange& change) {
  base::Violations violations;
  StudySpec next = spec;
  if (change.display_name) next.display_name = *change.display_name;
  if (change.description) next.description = *change.description;
  if (change.labels) next.labels = *change.labels;
  if (change.max_trials) next.budget.max_trials = *change.max_trials;
  if (change.max_parallel) next.budget.max_parallel = *change.max_parallel;
  if (change.patience) next.budget.patience = *change.patience;
  if (change.target_value) next.budget.target_value = *change.target_value;
  if (change.max_wall) next.budget.max_wall = *change.max_wall;
  if (change.until_answered) next.budget.until_answered = *change.until_answered;
  if (change.weight) next.weight = *change.weight;
  if (change.parameters) ChangeSpace(spec, *change.parameters, &violations, &next.space);
  if (change.max_parallel && spec.reproducible && *change.max_parallel != spec.budget.max_parallel) {
    violations.Add("budget.max_parallel", "decides what a study with reproducible suggests; it can't be changed");
  }
  if (change.command) {
    if (std::holds_alternative<CommandObjective>(spec.objective)) {
      next.objective = *change.command;
    } else {
      violations.Add("objective.command", "is for a study that runs a command, which this one does not");
    }
  }
  if (!violations.empty()) return violations.ToStatus();
  return next;
}

bool SameForDesigners(const StudySpec& a, const StudySpec& b) {
  return ForDesigners(a) == ForDesigners(b);
}

bool SameButMaxTrials(const StudySpec& a, const StudySpec& b) {
  StudySpec other = b;
  other.budget.max_trials = a.budget.max_trials;
  return SameForDesigners(a, other);
}

std::optional<SpecChange> WayBack(const StudySpec& before, const StudySpec& after) {
  SpecChange change;
  const auto note = [](const auto& old, const auto& now, auto* field) {
    if (!(old == now)) *field = old;
  };
  note(before.display_name, after.display_name, &change.display_name);
  note(before.description, after.description, &change.description);
  note(before.labels, after.labels, &change.labels);
  note(before.budget.max_parallel, after.budget.max_parallel, &change.max_parallel);
  note(before.budget.patience, after.budget.patience, &change.patience);
  if (before.budget.target_value != after.budget.target_value) change.target_value.emplace(before.budget.target_value);
  if (before.budget.max_wall != after.budget.max_wall) change.max_wall.emplace(before.budget.max_wall);
  if (before.budget.until_answered != after.budget.until_answered) {
    change.until_answered.emplace(before.budget.until_answered);
  }
  note(before.weight, after.weight, &change.weight);
  const auto* const command = std::get_if<CommandObjective>(&before.objective);
  if (command != nullptr && !(before.objective == after.objective)) change.command = *command;
  if (change == SpecChange()) return std::nullopt;
  return change;
}

std::string DescribeChange(const StudySpec& before, const StudySpec& after) {
  std::vector<std::string> changes;
  const auto number = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) changes.push_back(absl::StrCat(name, " ", a, " -> ", b));
  };
  number("max_trials", before.budget.max_trials, after.budget.max_trials);
  number("max_parallel", before.budget.max_parallel, after.budget.max_parallel);
  number("patience", before.budget.patience, after.budget.patience);
  if (before.budget.target_value != after.budget.target_value) {
    changes.push_back(
        absl::StrCat("target_value ", Shown(before.budget.target_value), " -> ", Shown(after.budget.target_value)));
  }
  if (before.budget.max_wall != after.budget.max_wall) {
    changes.push_back(absl::StrCat("max_wall ", Shown(before.budget.max_wall), " -> ", Shown(after.budget.max_wall)));
  }
  if (before.budget.until_answered != after.budget.until_answered) {
    changes.push_back(absl::StrCat("until_answered ", Shown(before.budget.until_answered), " -> ",
                                   Shown(after.budget.until_answered)));
  }
  number("weight", before.weight, after.weight);
  for (size_t i = 0; i < after.space.parameters().size(); ++i) {
    if (i >= before.space.parameters().size()) {
      changes.push_back(absl::StrCat("new parameter ", after.space.parameters()[i].name));
    } else if (!(before.space.parameters()[i] == after.space.parameters()[i])) {
      changes.push_back(absl::StrCat("parameter ", after.space.parameters()[i].name));
    }
  }
  if (!(before.objective == after.objective)) changes.push_back("command");
  if (before.display_name != after.display_name) changes.push_back("display_name");
  if (before.description != after.description) changes.push_back("description");
  if (before.labels != after.labels) changes.push_back("labels");
  return absl::StrJoin(changes, ", ");
}

}  // namespace luthier::study
