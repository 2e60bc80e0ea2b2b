#include "server/coordinator/proposals/replay.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/search/effective.h"
#include "lib/search/legacy_state.h"
#include "lib/search/registry.h"
#include "server/coordinator/proposals/late.h"
#include "server/coordinator/proposals/proposer.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {
namespace {

constexpr int kPage = 1000;

bool SameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameBits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) { return SameBits(x, y); });
}

bool SameBits(const study::Parameters& a, const study::Parameters& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    const double* p = std::get_if<double>(&x.second);
    const double* q = std::get_if<double>(&y.second);
    const auto* v = std::get_if<std::vector<double>>(&x.second);
    const auto* w = std::get_if<std::vector<double>>(&y.second);
    if (v && w) return x.first == y.first && v->size() == w->size() && SameBits(*v, *w);
    return x.first == y.first && (p && q ? SameBits(*p, *q) : x.second == y.second);
  });
}

bool SameBits(const std::map<std::string, double>& a, const std::map<std::string, double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && SameBits(x.second, y.second); });
}

// A suggestion lists all gradients that it was made without; its row lists those that no earlier suggestion did.
// `noted` has all that the rows up to this one list.
bool SetAsideAgrees(const search::Suggestion& again, const study::Provenance& stored, const std::set<int64_t>& noted,
                    const study::History& history) {
  const auto listed = [&](int64_t number) {
    return std::binary_search(again.set_aside.begin(), again.set_aside.end(), number);
  };
  const auto missing = [&](int64_t number) {
    const bool known = number >= 1 && number <= static_cast<int64_t>(history.trials().size());
    return known && history.trials()[static_cast<size_t>(number - 1)].gradient && noted.count(number) == 0;
  };
  return std::all_of(stored.set_aside.begin(), stored.set_aside.end(), listed) &&
         std::none_of(again.set_aside.begin(), again.set_aside.end(), missing);
}

std::string Goal(bool promotion, int64_t number, int64_t resource) {
  return absl::StrCat(promotion ? absl::StrCat("trial ", number, " continued") : "a new trial", " to step ", resource);
}

// An ask as it was answered and stored.
struct Ask {
  study::Provenance provenance;
  study::Parameters parameters;  // Parameters of a new trial.
  int64_t number = 0;
  bool promotion = false;
};

struct Asks {
  std::map<uint64_t, Ask> by_index;
  std::vector<Ask> late;  // In order of number. They have no ask index.
};

absl::StatusOr<Asks> ReadAsks(storage::Storage* storage, storage::StudyKey study) {
  Asks asks;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> page,
                             storage->ListTrials(study, {}, after, kPage));
    for (const storage::TrialRecord& record : page) {
      after = record.trial.number;
      const study::Provenance& first = record.trial.provenance;
      if (first.ask_index)
        asks.by_index[*first.ask_index] = {first, study::SuggestedParameters(record.trial), after, false};
      if (IsLate(first)) asks.late.push_back({first, study::SuggestedParameters(record.trial), after, false});
      for (const study::Provenance& promotion : record.trial.promotions) {
        if (promotion.ask_index) asks.by_index[*promotion.ask_index] = {promotion, {}, after, true};
      }
    }
    if (page.size() < kPage) return asks;
  }
}

std::string Where(const Ask& ask) {
  return absl::StrCat("trial ", ask.number, " (ask ", *ask.provenance.ask_index, ")");
}

// Returns how the suggestion that was computed again differs from the stored one; "" if in no bit. `noted` has the
// gradients set aside so far.
std::string Mismatch(const Ask& ask, const std::optional<search::Suggestion>& again, const std::set<int64_t>& noted,
                     const study::History& history) {
  if (!again) return "a result it depends on is missing";
  const study::Provenance& stored = ask.provenance;
  if (again->resume != (ask.promotion ? std::optional<int64_t>(ask.number) : std::nullopt) ||
      again->resource != stored.resource) {
    return absl::StrCat("stored ", Goal(ask.promotion, ask.number, stored.resource), ", computed ",
                        Goal(again->resume.has_value(), again->resume.value_or(0), again->resource));
  }
  if (!SameBits(again->parameters, ask.parameters)) {
    return absl::StrCat("stored ", study::FormatParameters(ask.parameters), ", computed ",
                        study::FormatParameters(again->parameters));
  }
  if (again->origin == stored.origin && again->designer_state == search::CurrentState(stored.designer_state) &&
      SameBits(again->details, stored.details) && SameBits(again->direction, stored.direction) &&
      again->tolerance == stored.tolerance && SetAsideAgrees(*again, stored, noted, history)) {
    return "";
  }
  return "same parameters, other origin, details, state, direction, tolerance or gradients set aside";
}

// Returns the trial of that number, if it is stored and may go on to `resource`; else null.
const study::HistoryTrial* Continuable(const study::History& history, int64_t number, int64_t resource) {
  const auto& trials = history.trials();
  if (number < 1 || number > static_cast<int64_t>(trials.size())) return nullptr;
  const study::HistoryTrial& trial = trials[static_cast<size_t>(number - 1)];
  const bool may = trial.number == number && trial.state == study::TrialState::kPaused && trial.resource < resource;
  return may ? &trial : nullptr;
}

// Checks that a promotion finds its trial PAUSED, or continued by the ask that it answers.
absl::Status CheckPromotion(storage::StudyKey study, const HistoryUpdate& update, const study::History& history,
                            const std::map<uint64_t, Ask>& asks, const std::set<uint64_t>& noted) {
  if (update.kind != HistoryUpdate::Kind::kPromoted) return absl::OkStatus();
  const auto ask = asks.find(update.ask_index);
  const bool same = noted.count(update.ask_index) > 0 && ask != asks.end() &&
                    ask->second.number == update.trial.number &&
                    history.trials()[static_cast<size_t>(update.trial.number - 1)].resource == update.resource;
  if (same ||
      (noted.count(update.ask_index) == 0 && Continuable(history, update.trial.number, update.resource) != nullptr)) {
    return absl::OkStatus();
  }
  return storage::Damaged(study, absl::StrCat("its history, in which event ", update.seq, " continues trial ",
                                              update.trial.number, " while it was not paused,"));
}

// Adds the stored answer to the history that later asks see. DATA_LOSS for the promotion of a trial that was not
// paused.
absl::Status NoteStored(storage::StudyKey study, const Ask& ask, study::History* history) {
  search::Suggestion stored;
  stored.parameters = ask.parameters;
  stored.designer_state = search::CurrentState(ask.provenance.designer_state);
  stored.resource = ask.provenance.resource;
  if (ask.promotion) {
    if (Continuable(*history, ask.number, stored.resource) == nullptr) {
      return storage::Damaged(study, absl::StrCat(Where(ask), ", which was continued while it was not paused,"));
    }
    stored.resume = ask.number;
  }
  Note(stored, *ask.provenance.ask_index, history);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReplayReport> VerifyReplay(storage::Storage* storage, const storage::StudyRecord& study,
                                          const DesignerFactory& create) {
  LUTHIER_ASSIGN_OR_RETURN(const SpecHistory specs, SpecHistory::Read(storage, study));
  study::StudySpec spec = search::Effective(study.spec);
  LUTHIER_ASSIGN_OR_RETURN(const Asks asks, ReadAsks(storage, study.key));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<HistoryUpdate> timeline,
                           ReadTimeline(storage, study.key, spec, std::numeric_limits<uint64_t>::max()));
  ReplayReport report;
  const bool uses_history = UsesHistory(spec);
  std::unique_ptr<search::Designer> designer;  // Created again wherever the service creates it again.
  size_t changes = 0;
  study::History history;
  std::set<int64_t> noted;      // Gradients set aside so far.
  std::set<uint64_t> promoted;  // Asks that promotions in the history answer.
  auto next = timeline.begin();
  for (const Ask& ask : asks.late) {
    ++report.checked;
    const study::Parameters again = LatePoint(specs.At(ask.provenance.prefix_seq), ask.number);
    if (!SameBits(again, ask.parameters)) {
      report.mismatches.push_back(absl::StrCat("trial ", ask.number, " (late): stored ",
                                               study::FormatParameters(ask.parameters), ", computed ",
                                               study::FormatParameters(again)));
    }
  }
  for (const auto& [ask_index, ask] : asks.by_index) {
    const study::Provenance& provenance = ask.provenance;
    for (; uses_history && next != timeline.end() && next->seq <= provenance.prefix_seq; ++next) {
      LUTHIER_RETURN_IF_ERROR(CheckPromotion(study.key, *next, history, asks.by_index, promoted));
      if (next->kind == HistoryUpdate::Kind::kPromoted) promoted.insert(next->ask_index);
      Apply(*next, &history);
      if (next->kind == HistoryUpdate::Kind::kRemoved) designer.reset();
    }
    if (designer == nullptr || specs.Changes(provenance.prefix_seq) != changes) {
      changes = specs.Changes(provenance.prefix_seq);
      spec = search::Effective(specs.At(provenance.prefix_seq));
      designer = create(spec);
    }
    if (spec.open_space) history.ExtendGradients(spec.space.differentiable().size());
    noted.insert(provenance.set_aside.begin(), provenance.set_aside.end());
    if (provenance.algorithm_version != search::VersionOf(spec)) {
      ++report.other_version;
    } else {
      LUTHIER_ASSIGN_OR_RETURN(const std::optional<search::Suggestion> again,
                               SuggestOne(designer.get(), spec, history, ask_index, base::StopToken()));
      ++report.checked;
      const std::string mismatch = Mismatch(ask, again, noted, history);
      if (!mismatch.empty()) report.mismatches.push_back(absl::StrCat(Where(ask), ": ", mismatch));
    }
    if (uses_history) LUTHIER_RETURN_IF_ERROR(NoteStored(study.key, ask, &history));
    if (ask.promotion) promoted.insert(ask_index);
  }
  return report;
}

}  // namespace luthier::coordinator
